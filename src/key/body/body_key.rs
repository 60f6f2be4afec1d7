use crate::{
    key::RequestHead,
    layer::{IntoKey, KeyError},
    resource::Resource,
};

/// Finds the resource that a request is about, with the help of its body.
///
/// Every [`Key`](super::super::Key) is one. So are closures: they take the request's head and its
/// whole body, and return what a closure may return as a [`ResourceKey`](crate::layer::ResourceKey): a
/// name, several names, a [`Resource`], or an `Option` or `Result` of one. The names are owned. An
/// error's text goes to whoever sent the request: it should not quote the body. A closure tells the
/// types of its arguments, as below, or is given to [`from_body_fn`](super::super::from_body_fn).
///
/// ```
/// use tower_redlock::key::{BodyKey, RequestHead};
///
/// // The first line of the body.
/// let key = |_: &RequestHead<'_>, body: &[u8]| {
///     body.split(|byte| *byte == b'\n').next().map(|line| String::from_utf8_lossy(line).into_owned())
/// };
/// let request = http::Request::new(());
/// let resource = key.body_key(&RequestHead::from(&request), b"evt_1\nrest").unwrap();
/// assert_eq!(resource.unwrap().to_string(), "evt_1");
/// ```
pub trait BodyKey {
    /// The resource of a request; `None` if it needs none.
    ///
    /// # Errors
    ///
    /// [`KeyError`] if the request has no usable key; it does not run then.
    fn body_key(&self, head: &RequestHead<'_>, body: &[u8]) -> Result<Option<Resource>, KeyError>;
}

impl<F, K> BodyKey for F
where
    F: Fn(&RequestHead<'_>, &[u8]) -> K,
    K: IntoKey,
{
    fn body_key(&self, head: &RequestHead<'_>, body: &[u8]) -> Result<Option<Resource>, KeyError> {
        self(head, body).into_key()
    }
}
