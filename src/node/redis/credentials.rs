use std::{fmt, sync::Arc};

/// How to log in to a server. The password is never shown.
#[derive(Clone)]
pub struct Credentials(Source);

#[derive(Clone)]
enum Source {
    Fixed { username: Option<Arc<str>>, password: Arc<str> },
    Callback(Arc<dyn Fn() -> Credentials + Send + Sync>),
}

impl Credentials {
    /// An ACL user and its password.
    pub fn new(username: impl Into<Arc<str>>, password: impl Into<Arc<str>>) -> Self {
        Self(Source::Fixed { username: Some(username.into()), password: password.into() })
    }

    /// The password of the default user (`requirepass`).
    pub fn password(password: impl Into<Arc<str>>) -> Self {
        Self(Source::Fixed { username: None, password: password.into() })
    }

    /// Credentials that are asked for at every connect, so that they may rotate.
    ///
    /// The callback runs on the crate's own thread and must not block.
    pub fn callback(f: impl Fn() -> Credentials + Send + Sync + 'static) -> Self {
        Self(Source::Callback(Arc::new(f)))
    }

    /// The user, if one is named, and the password, as of now.
    pub(super) fn resolve(&self) -> Option<(Option<Arc<str>>, Arc<str>)> {
        let mut credentials = self.clone();
        // A callback may hand over to another; a circle of them must not hang us.
        for _ in 0..8 {
            match credentials.0 {
                Source::Fixed { username, password } => return Some((username, password)),
                Source::Callback(f) => credentials = f(),
            }
        }
        None
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let username = match &self.0 {
            Source::Fixed { username, .. } => username.as_deref().unwrap_or("default"),
            Source::Callback(_) => "(callback)",
        };
        f.debug_struct("Credentials").field("username", &username).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        let shown = format!("{:?}", Credentials::new("app", "s3cret"));
        assert!(shown.contains("app") && !shown.contains("s3cret"), "{shown}");
    }

    #[test]
    fn a_callback_is_asked_every_time() {
        let calls = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&calls);
        let credentials = Credentials::callback(move || {
            let n = counter.fetch_add(1, Ordering::SeqCst);
            Credentials::password(format!("p{n}"))
        });
        assert_eq!(&*credentials.resolve().unwrap().1, "p0");
        assert_eq!(&*credentials.resolve().unwrap().1, "p1");
    }

    #[test]
    fn a_circle_of_callbacks_ends() {
        fn circle() -> Credentials {
            Credentials::callback(circle)
        }
        assert!(circle().resolve().is_none());
    }
}
