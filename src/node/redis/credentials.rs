//! Credentials of a server, fixed, from a file or from a callback.

use std::{
    fmt,
    fs::File,
    io::Read,
    path::{Path, PathBuf},
    sync::Arc,
};

/// How to log in to a server. The password is never shown.
#[derive(Clone)]
pub struct Credentials(CredentialSource);

#[derive(Clone)]
enum CredentialSource {
    Fixed { username: Option<Arc<str>>, password: Arc<str> },
    File { username: Option<Arc<str>>, path: Arc<Path> },
    Callback(Arc<dyn Fn() -> Credentials + Send + Sync>),
}

pub(super) type UserAndPassword = (Option<Arc<str>>, Arc<str>);

/// Maximum length of a password's file, in bytes.
const MAX_FILE: u64 = 64 * 1024;

impl Credentials {
    /// An ACL user and its password.
    pub fn new(username: impl Into<Arc<str>>, password: impl Into<Arc<str>>) -> Self {
        Self(CredentialSource::Fixed { username: Some(username.into()), password: password.into() })
    }

    /// The password of the default user (`requirepass`).
    pub fn password(password: impl Into<Arc<str>>) -> Self {
        Self(CredentialSource::Fixed { username: None, password: password.into() })
    }

    /// An ACL user, and the file that its password is in.
    ///
    /// The file is read by [`build`](crate::RedlockBuilder::build) and again at every connect, so
    /// that the password may change: it is the text of the file without a line break at its end. A
    /// file that can't be read is a [`Reason::Auth`](crate::error::Reason::Auth) of the node until it can;
    /// connections that stand are not touched.
    pub fn from_file(username: impl Into<Arc<str>>, path: impl Into<PathBuf>) -> Self {
        let path: PathBuf = path.into();
        Self(CredentialSource::File { username: Some(username.into()), path: path.into() })
    }

    /// The same for the default user (`requirepass`).
    pub fn password_from_file(path: impl Into<PathBuf>) -> Self {
        let path: PathBuf = path.into();
        Self(CredentialSource::File { username: None, path: path.into() })
    }

    /// Credentials from a callback, called at every connect, so that they may rotate.
    ///
    /// The callback runs on the crate's own thread and must not block.
    pub fn callback(f: impl Fn() -> Credentials + Send + Sync + 'static) -> Self {
        Self(CredentialSource::Callback(Arc::new(f)))
    }

    /// Checks that the file can be read.
    pub(crate) fn check(&self) -> Result<(), Arc<str>> {
        match &self.0 {
            CredentialSource::File { path, .. } => password_in(path).map(|_| ()),
            CredentialSource::Fixed { .. } | CredentialSource::Callback(_) => Ok(()),
        }
    }

    /// Returns the user, if any, and the current password.
    pub(super) async fn resolve(&self) -> Result<UserAndPassword, Arc<str>> {
        let mut credentials = self.clone();
        // A callback may return another callback; a cycle must not hang.
        for _ in 0..8 {
            match credentials.0 {
                CredentialSource::Fixed { username, password } => return Ok((username, password)),
                CredentialSource::File { username, path } => {
                    // A slow disk must not keep the thread from renewals.
                    let reading = tokio::task::spawn_blocking(move || password_in(&path));
                    let password = reading.await.map_err(|error| Arc::from(error.to_string()))?;
                    return Ok((username, password?));
                }
                CredentialSource::Callback(f) => credentials = f(),
            }
        }
        Err("the credentials callback only calls itself".into())
    }
}

fn password_in(path: &Path) -> Result<Arc<str>, Arc<str>> {
    let unusable = |why: &dyn fmt::Display| -> Arc<str> {
        format!("the password file {} {why}", path.display()).into()
    };
    let mut text = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_FILE + 1).read_to_end(&mut text))
        .map_err(|error| unusable(&format_args!("can't be read: {error}")))?;
    if text.len() as u64 > MAX_FILE {
        return Err(unusable(&format_args!("has more than {MAX_FILE} bytes")));
    }
    let text = std::str::from_utf8(&text).map_err(|_| unusable(&"is not UTF-8"))?;
    let password = text.strip_suffix('\n').unwrap_or(text);
    let password = password.strip_suffix('\r').unwrap_or(password);
    if password.is_empty() {
        return Err(unusable(&"is empty"));
    }
    Ok(password.into())
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let username = match &self.0 {
            CredentialSource::Fixed { username, .. } | CredentialSource::File { username, .. } => {
                username.as_deref().unwrap_or("default")
            }
            CredentialSource::Callback(_) => "(callback)",
        };
        let mut shown = f.debug_struct("Credentials");
        shown.field("username", &username);
        if let CredentialSource::File { path, .. } = &self.0 {
            shown.field("path", path);
        }
        shown.finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn a_password_is_never_shown() {
        let shown = format!("{:?}", Credentials::new("app", "s3cret"));
        assert!(shown.contains("app") && !shown.contains("s3cret"), "{shown}");
    }

    #[tokio::test]
    async fn a_callback_is_asked_every_time() {
        let calls = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&calls);
        let credentials = Credentials::callback(move || {
            let n = counter.fetch_add(1, Ordering::SeqCst);
            Credentials::password(format!("p{n}"))
        });
        assert_eq!(&*credentials.resolve().await.unwrap().1, "p0");
        assert_eq!(&*credentials.resolve().await.unwrap().1, "p1");
    }

    #[tokio::test]
    async fn a_circle_of_callbacks_ends() {
        fn circle() -> Credentials {
            Credentials::callback(circle)
        }
        assert!(circle().resolve().await.is_err());
    }

    #[test]
    fn a_file_is_one_line() {
        let file = std::env::temp_dir().join(format!("redlock-password-{}", std::process::id()));
        let read = |text: &[u8]| {
            std::fs::write(&file, text).unwrap();
            password_in(&file)
        };
        for text in ["s3cret", "s3cret\n", "s3cret\r\n"] {
            assert_eq!(&*read(text.as_bytes()).unwrap(), "s3cret");
        }
        assert_eq!(&*read(b" s3 cret \n\n").unwrap(), " s3 cret \n");
        let long = "s3cret".repeat(20_000);
        for text in [&b""[..], b"\n", b"s3cret\xff", long.as_bytes()] {
            let error = read(text).unwrap_err();
            let path = file.display().to_string();
            assert!(error.contains(&path) && !error.contains("s3cret"), "{error}");
        }
        std::fs::remove_file(&file).unwrap();
        let gone = Credentials::from_file("app", &file);
        assert!(gone.check().is_err() && format!("{gone:?}").contains("app"));
    }
}
