//! Basic authentication.

use std::{fmt, sync::Arc};

use headers::{Authorization, HeaderMapExt as _, authorization::Basic};
use http::{HeaderValue, request::Parts};
use sha2::{Digest, Sha256};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

use super::{Access, Authorize, Viewer};

/// Basic authentication (RFC 7617) for a few users.
///
/// The time of a comparison depends on neither the names nor the passwords. Credentials are sent with each
/// request: serve the pages over TLS. The browser asks a viewer without valid credentials for them. Attempts are
/// not counted: choose passwords that can't be guessed.
///
/// ```
/// use tower_redlock_dashboard::{Access, BasicAuth};
///
/// # let (ann, guest) = ("secret", "other");
/// let access = BasicAuth::new("locks").user("ann", ann, Access::All).user("guest", guest, Access::ReadOnly);
/// ```
#[derive(Clone)]
pub struct BasicAuth {
    challenge: HeaderValue,
    users: Vec<BasicUser>,
}

#[derive(Clone)]
struct BasicUser {
    name: Arc<str>,
    credentials: [u8; 32],
    access: Access,
}

impl BasicAuth {
    /// Returns one without users. Browsers show the realm when they ask for the password; characters that a
    /// header can't have are left out.
    pub fn new(realm: &str) -> Self {
        let is_plain = |c: &char| (' '..='~').contains(c) && !matches!(c, '"' | '\\');
        let realm: String = realm.chars().filter(is_plain).collect();
        let challenge = format!("Basic realm=\"{realm}\", charset=\"UTF-8\"");
        let challenge =
            HeaderValue::try_from(challenge).unwrap_or(HeaderValue::from_static("Basic"));
        Self { challenge, users: Vec::new() }
    }

    /// Adds a user. One whose name has a colon, which Basic authentication can't express, or whose password is
    /// empty, as it was forgotten in a configuration, is left out with a WARN.
    #[must_use]
    pub fn user(mut self, name: impl Into<Arc<str>>, password: &str, access: Access) -> Self {
        let name = name.into();
        if name.contains(':') || password.is_empty() {
            tracing::warn!(%name, "a user of the dashboard has a colon in the name, or no password: no access");
            return self;
        }
        let credentials = digest(&name, password);
        self.users.push(BasicUser { name, credentials, access });
        self
    }
}

fn digest(name: &str, password: &str) -> [u8; 32] {
    // The name has no colon.
    Sha256::new_with_prefix(name).chain_update(":").chain_update(password).finalize().into()
}

impl Authorize for BasicAuth {
    fn viewer(&self, request: &Parts) -> Viewer {
        let challenged = || Viewer::challenged(self.challenge.clone());
        let sent = request.headers.typed_get::<Authorization<Basic>>();
        let Some(sent) = sent else { return challenged() };
        let sent = digest(sent.username(), sent.password());
        // All users are compared, whichever matches.
        let mut found = u32::MAX;
        for (number, user) in (0..).zip(&self.users) {
            let is_user: Choice = user.credentials.ct_eq(&sent);
            found.conditional_assign(&number, is_user);
        }
        let user = usize::try_from(found).ok().and_then(|found| self.users.get(found));
        user.map_or_else(challenged, |user| user.access.by(Arc::clone(&user.name)))
    }
}

impl fmt::Debug for BasicAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let users: Vec<_> = self.users.iter().map(|user| (&*user.name, user.access)).collect();
        f.debug_struct("BasicAuth").field("users", &users).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    use http::{Request, header::AUTHORIZATION};

    use super::*;

    fn viewer(header: Option<String>) -> Viewer {
        let access = BasicAuth::new("loc\"ks").user("ann", "s3cret-a", Access::All).user(
            "bob",
            "s3cret-b",
            Access::ReadOnly,
        );
        let mut request = Request::builder();
        if let Some(header) = header {
            request = request.header(AUTHORIZATION, header);
        }
        access.viewer(&request.body(()).unwrap().into_parts().0)
    }

    fn basic(credentials: &str) -> String {
        format!("Basic {}", STANDARD.encode(credentials))
    }

    #[test]
    fn users_get_their_access() {
        assert_eq!(viewer(Some(basic("ann:s3cret-a"))), Access::All.by("ann"));
        assert_eq!(viewer(Some(basic("bob:s3cret-b"))), Access::ReadOnly.by("bob"));
        let lower = basic("ann:s3cret-a").replace("Basic", "basic");
        assert_eq!(viewer(Some(lower)), Access::All.by("ann"));
    }

    #[test]
    fn others_are_challenged() {
        let wrong = [
            None,
            Some(basic("ann:s3cret-b")),
            Some(basic("bob:s3cret-a")),
            Some(basic("ann")),
            Some(basic("")),
            Some("Basic !".into()),
            Some("Bearer x".into()),
        ];
        for header in wrong {
            let challenge = HeaderValue::from_static(r#"Basic realm="locks", charset="UTF-8""#);
            assert_eq!(viewer(header.clone()), Viewer::challenged(challenge), "{header:?}");
        }
    }

    #[test]
    fn users_without_password_are_left_out() {
        let access =
            BasicAuth::new("locks").user("ann", "", Access::All).user("a:b", "c", Access::All);
        for sent in ["ann:", "a:b:c"] {
            let request = Request::builder().header(AUTHORIZATION, basic(sent));
            let viewer = access.viewer(&request.body(()).unwrap().into_parts().0);
            assert_eq!(viewer.access(), Access::Forbidden, "{sent}");
        }
    }

    #[test]
    fn passwords_are_not_shown() {
        let access = BasicAuth::new("locks").user("ann", "s3cret-a", Access::All);
        assert_eq!(format!("{access:?}"), r#"BasicAuth { users: [("ann", All)], .. }"#);
    }
}
