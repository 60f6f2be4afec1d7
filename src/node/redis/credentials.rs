//! Credentials of a server: fixed, from a file, or from a callback.

use std::{
    error::Error,
    fmt,
    fs::File,
    io::Read,
    panic::AssertUnwindSafe,
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use futures_util::FutureExt;
use tokio::time::{Instant, timeout};
#[cfg(feature = "redis-1")]
use {::redis::StreamingCredentialsProvider, futures_util::StreamExt as _};

use super::login::{Login, LoginTerm};

/// How to log in to a server. The password is never shown.
///
/// It is a text, or a [callback](Self::callback) that is called at every connect. A `SecretString` of the
/// crate `secrecy`: `Credentials::password(secret.expose_secret())`. That copies the password; a callback
/// copies it at each connect only.
#[derive(Clone)]
pub struct Credentials(CredentialSource);

#[derive(Clone)]
enum CredentialSource {
    Text(AuthToken),
    File {
        username: Option<Arc<str>>,
        path: Arc<Path>,
    },
    Callback(Arc<dyn Fn() -> TokenFuture + Send + Sync>),
    #[cfg(feature = "redis-1")]
    Provider(Arc<dyn StreamingCredentialsProvider>),
}

type TokenFuture =
    Pin<Box<dyn Future<Output = Result<AuthToken, Box<dyn Error + Send + Sync>>> + Send>>;

/// Maximum length of a password's file, in bytes.
const MAX_FILE: u64 = 64 * 1024;
/// Timeout for one call of a callback, and for reading a file.
const TIMEOUT: Duration = Duration::from_secs(10);

impl Credentials {
    /// Creates credentials of an ACL user.
    pub fn new(username: impl Into<Arc<str>>, password: impl Into<Arc<str>>) -> Self {
        Self(CredentialSource::Text(AuthToken::new(username, password)))
    }

    /// Creates credentials of the default user (`requirepass`).
    pub fn password(password: impl Into<Arc<str>>) -> Self {
        Self(CredentialSource::Text(AuthToken::password(password)))
    }

    /// Creates credentials of an ACL user whose password is in a file.
    ///
    /// The file is read by [`build`](crate::RedlockBuilder::build) and again at every connect, so
    /// that the password may change. The password is the text of the file without a line break at
    /// its end. While the file can't be read within 10 s, the node fails with
    /// [`Reason::Auth`](crate::error::Reason::Auth); open connections are not affected.
    pub fn from_file(username: impl Into<Arc<str>>, path: impl Into<PathBuf>) -> Self {
        let path: PathBuf = path.into();
        Self(CredentialSource::File { username: Some(username.into()), path: path.into() })
    }

    /// Like [`from_file`](Self::from_file), for the default user (`requirepass`).
    pub fn password_from_file(path: impl Into<PathBuf>) -> Self {
        let path: PathBuf = path.into();
        Self(CredentialSource::File { username: None, path: path.into() })
    }

    /// Creates credentials from an asynchronous callback: passwords that rotate, or expire, such as
    /// the identity tokens of AWS, Azure and Google Cloud.
    ///
    /// The callback is called at every connect. If its token expires ([`AuthToken::valid_for`]),
    /// the callback is called again after 70 to 80 % of that time, and the open connection
    /// authenticates with the new token (`AUTH`) without a reconnect. Each connection calls the
    /// callback separately, so a callback whose tokens are expensive should cache the latest one.
    /// Connections that are used rarely (by a response store, or to copy records) authenticate at
    /// their next use; if the token has expired by then, a new connection is opened.
    ///
    /// # Errors
    ///
    /// If the callback fails, panics, or does not return within 10 s, the node that it was called
    /// for fails with [`Reason::Auth`](crate::error::Reason::Auth). While a connection is open, the
    /// failure is logged at WARN, and so is a new token that the server refuses. The connection
    /// stays open until its token expires, and the callback is called again: after 100 ms, then
    /// after growing pauses of at most 30 s. When its token expires, a connection is closed with
    /// that reason. The text of the callback's error is shown and logged, so it must not contain a
    /// secret.
    ///
    /// # Cancel safety
    ///
    /// The callback's future is dropped when it takes too long, and when its node is dropped.
    ///
    /// # Where it runs
    ///
    /// The future is polled on the crate's own thread, within a tokio runtime. A poll must not
    /// block, as that delays renewals. Spawn work that blocks, or that needs the application's
    /// runtime, as a task on that runtime (`tokio::runtime::Handle::spawn`), and await the task.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower_redlock::node::redis::{AuthToken, Credentials};
    ///
    /// # async fn identity_token() -> std::io::Result<String> { Ok("token".into()) }
    /// let credentials = Credentials::callback(|| async {
    ///     let token = identity_token().await?;
    ///     Ok(AuthToken::new("locks", token).valid_for(Duration::from_secs(15 * 60)))
    /// });
    ///
    /// // From a closure that does not wait:
    /// # fn current_password() -> String { "password".into() }
    /// let rotating = || Ok(AuthToken::new("locks", current_password()));
    /// let credentials = Credentials::callback(move || std::future::ready(rotating()));
    /// ```
    pub fn callback<F, Fut>(f: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<AuthToken, Box<dyn Error + Send + Sync>>> + Send + 'static,
    {
        Self(CredentialSource::Callback(Arc::new(move || Box::pin(f()))))
    }

    /// Creates credentials from a provider of the `redis` crate, such as its
    /// `EntraIdCredentialsProvider`. Needs the feature `redis-1`.
    ///
    /// Each connection subscribes to the provider's stream. It waits at most 10 s for the first
    /// item, logs in with it, and authenticates again, without a reconnect, when the stream yields
    /// another password. A provider has to yield the next password before the previous one expires.
    /// Failures, panics and refused passwords are handled as for [`callback`](Self::callback). The
    /// streams, too, are polled on the crate's own
    /// thread. The text of an error is shown and logged.
    #[cfg(feature = "redis-1")]
    pub fn provider(provider: impl StreamingCredentialsProvider + 'static) -> Self {
        Self(CredentialSource::Provider(Arc::new(provider)))
    }

    /// Checks that the file can be read.
    pub(crate) fn check(&self) -> Result<(), Arc<str>> {
        match &self.0 {
            CredentialSource::File { path, .. } => password_in(path).map(|_| ()),
            _ => Ok(()),
        }
    }

    /// Returns the user, if any, the current password, and its expiry.
    pub(super) async fn resolve(&self) -> Result<Login, Arc<str>> {
        match &self.0 {
            CredentialSource::Text(token) => Ok(token.clone().login(Instant::now())),
            CredentialSource::File { username, path } => {
                let password = read_password(Arc::clone(path)).await?;
                Ok(Login { username: username.clone(), password, term: None })
            }
            CredentialSource::Callback(f) => call(&**f).await,
            #[cfg(feature = "redis-1")]
            CredentialSource::Provider(provider) => {
                let first = timeout(TIMEOUT, provided(&**provider, None)).await;
                let late =
                    |_| format!("the credentials provider sent no credentials within {TIMEOUT:?}");
                first.map_err(late)?
            }
        }
    }

    /// Whether the source itself announces new credentials.
    pub(super) fn is_pushed(&self) -> bool {
        match &self.0 {
            #[cfg(feature = "redis-1")]
            CredentialSource::Provider(_) => true,
            _ => false,
        }
    }

    /// Returns the next credentials: those that the source pushes next, if it pushes them, or else
    /// the current ones.
    pub(super) async fn renew(&self, former: Option<Arc<str>>) -> Result<Login, Arc<str>> {
        match (&self.0, former) {
            #[cfg(feature = "redis-1")]
            (CredentialSource::Provider(provider), former) => provided(&**provider, former).await,
            _ => self.resolve().await,
        }
    }
}

/// Waits until a provider, which is code outside this crate, yields another password.
#[cfg(feature = "redis-1")]
async fn provided(
    provider: &dyn StreamingCredentialsProvider,
    former: Option<Arc<str>>,
) -> Result<Login, Arc<str>> {
    let waiting = AssertUnwindSafe(async {
        let mut items = provider.subscribe();
        while let Some(item) = items.next().await {
            let auth = item.map_err(|error| format!("the credentials provider failed: {error}"))?;
            if former.as_deref() != Some(auth.password()) {
                let username = (!auth.username().is_empty()).then(|| auth.username().into());
                return Ok(Login { username, password: auth.password().into(), term: None });
            }
        }
        Err("the credentials provider's stream has ended".into())
    });
    waiting.catch_unwind().await.unwrap_or_else(|_| Err("the credentials provider panicked".into()))
}

/// Calls a callback, which is code outside this crate, for a token.
async fn call(f: &(dyn Fn() -> TokenFuture + Send + Sync)) -> Result<Login, Arc<str>> {
    let called = Instant::now();
    let calling = AssertUnwindSafe(async { f().await }).catch_unwind();
    let token = match timeout(TIMEOUT, calling).await {
        Ok(Ok(Ok(token))) => token,
        Ok(Ok(Err(error))) => {
            return Err(format!("the credentials callback failed: {error}").into());
        }
        Ok(Err(_)) => return Err("the credentials callback panicked".into()),
        Err(_) => {
            let text = format!("the credentials callback did not return within {TIMEOUT:?}");
            return Err(text.into());
        }
    };
    let login = token.login(called);
    if login.has_ended() {
        return Err("the credentials callback returned an expired token".into());
    }
    Ok(login)
}

/// A user and a password that may expire, returned by a callback of [`Credentials::callback`].
/// The password is never shown.
#[derive(Clone)]
pub struct AuthToken {
    username: Option<Arc<str>>,
    password: Arc<str>,
    valid_for: Option<Duration>,
}

impl AuthToken {
    /// Creates a token from an ACL user and the password. Unless [`valid_for`](Self::valid_for) is
    /// called, the token does not expire: it is used until the connection ends.
    pub fn new(username: impl Into<Arc<str>>, password: impl Into<Arc<str>>) -> Self {
        Self { username: Some(username.into()), ..Self::password(password) }
    }

    /// Creates a token of the default user (`requirepass`).
    pub fn password(password: impl Into<Arc<str>>) -> Self {
        Self { username: None, password: password.into(), valid_for: None }
    }

    /// Sets the time for which the server accepts the token, counted from the call of the callback.
    /// For a token that the callback cached, set the remaining time. Default: the token does not
    /// expire.
    #[must_use]
    pub fn valid_for(mut self, valid_for: Duration) -> Self {
        self.valid_for = Some(valid_for);
        self
    }

    fn login(self, called: Instant) -> Login {
        let Self { username, password, valid_for } = self;
        // A time beyond the range of the clock means that the token does not expire.
        let term = valid_for.and_then(|valid_for| LoginTerm::new(called, valid_for));
        Login { username, password, term }
    }
}

impl fmt::Debug for AuthToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthToken")
            .field("username", &self.username)
            .field("valid_for", &self.valid_for)
            .finish_non_exhaustive()
    }
}

/// A slow disk must not block the thread that sends renewals.
async fn read_password(path: Arc<Path>) -> Result<Arc<str>, Arc<str>> {
    let file = Arc::clone(&path);
    let reading = tokio::task::spawn_blocking(move || password_in(&file));
    let late = |_| format!("the password file {} was not read within {TIMEOUT:?}", path.display());
    let read = timeout(TIMEOUT, reading).await.map_err(late)?;
    read.map_err(|error| Arc::from(error.to_string()))?
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
            CredentialSource::Text(AuthToken { username, .. })
            | CredentialSource::File { username, .. } => username.as_deref().unwrap_or("default"),
            CredentialSource::Callback(_) => "(callback)",
            #[cfg(feature = "redis-1")]
            CredentialSource::Provider(_) => "(provider)",
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
    use std::future::ready;

    use super::*;
    use crate::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn a_password_is_never_shown() {
        let shown = format!("{:?}", Credentials::new("app", "s3cret"));
        assert!(shown.contains("app") && !shown.contains("s3cret"), "{shown}");
    }

    #[tokio::test]
    async fn callback_is_called_every_time() {
        let calls = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&calls);
        let credentials = Credentials::callback(move || {
            let n = counter.fetch_add(1, Ordering::SeqCst);
            ready(Ok(AuthToken::password(format!("p{n}"))))
        });
        assert_eq!(&*credentials.resolve().await.unwrap().password, "p0");
        assert_eq!(&*credentials.resolve().await.unwrap().password, "p1");
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
