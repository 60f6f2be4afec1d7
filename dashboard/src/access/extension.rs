//! Viewers that another layer has authenticated.

use http::request::Parts;

use super::{Access, Authorize, Viewer};

/// Returns the access of what an authentication layer put into the request's extensions. A request without it
/// is forbidden.
///
/// ```
/// use tower_redlock_dashboard::{Access, by_extension};
///
/// #[derive(Clone)]
/// struct User {
///     name: String,
///     is_operator: bool,
/// }
///
/// let access = by_extension(|user: &User| {
///     let access = if user.is_operator { Access::All } else { Access::ReadOnly };
///     access.by(user.name.as_str())
/// });
/// ```
pub fn by_extension<T, V>(access: impl Fn(&T) -> V + Send + Sync + 'static) -> impl Authorize
where
    T: Send + Sync + 'static,
    V: Into<Viewer>,
{
    move |request: &Parts| {
        request.extensions.get::<T>().map_or(Access::Forbidden.into(), |user| access(user).into())
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    #[test]
    fn extension_decides() {
        let access = by_extension(|name: &&'static str| Access::ReadOnly.by(*name));
        let viewer = |request: Request<()>| access.viewer(&request.into_parts().0);
        let request = Request::builder().extension("ann").body(()).unwrap();
        assert_eq!(viewer(request), Access::ReadOnly.by("ann"));
        assert_eq!(viewer(Request::new(())).access(), Access::Forbidden);
    }
}
