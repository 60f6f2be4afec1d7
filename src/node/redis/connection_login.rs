//! The login of an open connection, which is renewed before it expires.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use ::redis::{Pipeline, Value};
use futures_util::FutureExt;
use tokio::{
    task::JoinHandle,
    time::{Sleep, sleep, sleep_until},
};

use super::{
    Credentials,
    backoff::Backoff,
    login::{Login, refused_login},
};
use crate::error::Reason;

/// First pause before a failed renewal is repeated.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Maximum pause before a failed renewal is repeated.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A task that requests the next login. Dropping it ends the task.
#[derive(Debug)]
pub(super) struct ResolvingLogin(JoinHandle<Result<Login, Arc<str>>>);

impl ResolvingLogin {
    /// Requests the credentials that replace `former`, if the source pushes them.
    fn renew(credentials: &Credentials, former: Option<&Login>) -> Self {
        let credentials = credentials.clone();
        let former = former.map(|login| Arc::clone(&login.password));
        Self(tokio::spawn(async move { credentials.renew(former).await }))
    }

    /// Runs as a task of its own, as connections that are used rarely do not poll it.
    pub(super) fn start(credentials: &Credentials) -> Self {
        let credentials = credentials.clone();
        Self(tokio::spawn(async move { credentials.resolve().await }))
    }
}

impl Future for ResolvingLogin {
    type Output = Result<Login, Arc<str>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let joined = ready!(self.0.poll_unpin(cx));
        // The runtime of the task shuts down.
        Poll::Ready(joined.unwrap_or_else(|_| Err("the credentials callback was cancelled".into())))
    }
}

impl Drop for ResolvingLogin {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The login of a connection.
///
/// A login that expires is renewed before: [`poll`](Self::poll) returns the `AUTH` command to send,
/// and [`answered`](Self::answered) handles its answer. A server keeps the former login if it
/// refuses a new one, so each failed renewal is repeated until the former login expires.
#[derive(Debug)]
pub(super) struct ConnectionLogin {
    /// The name of the node or server, for the log.
    server: Arc<str>,
    source: Option<Credentials>,
    current: Option<Login>,
    renewal: LoginRenewal,
    /// Ready when the current login expires.
    end: Option<Pin<Box<Sleep>>>,
    backoff: Backoff,
    /// Why the latest renewal failed.
    failure: Option<Reason>,
}

#[derive(Debug)]
enum LoginRenewal {
    /// The login does not expire.
    Never,
    Waiting(Pin<Box<Sleep>>),
    Asking(ResolvingLogin),
    /// The `AUTH` with this login was sent and not answered yet.
    Sent(Login),
}

/// The next step of a connection's login.
#[derive(Debug)]
pub(super) enum LoginStep {
    /// Send this `AUTH`, and pass its answer to [`ConnectionLogin::answered`].
    Send(Pipeline),
    /// Close the connection: the login has expired.
    Close(Reason),
}

impl ConnectionLogin {
    /// Creates the state; `source` supplies the next login.
    pub(super) fn new(
        server: &Arc<str>,
        source: Option<Credentials>,
        current: Option<Login>,
    ) -> Self {
        let mut login = Self {
            server: Arc::clone(server),
            source,
            current: None,
            renewal: LoginRenewal::Never,
            end: None,
            backoff: first_backoff(),
            failure: None,
        };
        login.set(current);
        login
    }

    /// Returns the login that the server knows.
    pub(super) fn current(&self) -> Option<&Login> {
        self.current.as_ref()
    }

    /// Hides the passwords in an error, as a server may repeat them.
    pub(super) fn hide(&self, reason: Reason) -> Reason {
        let sent = match &self.renewal {
            LoginRenewal::Sent(login) => Some(login),
            _ => None,
        };
        let known = self.current.iter().chain(sent);
        known.fold(reason, |reason, login| login.hide(reason))
    }

    fn set(&mut self, current: Option<Login>) {
        let term = current.as_ref().and_then(|login| login.term);
        self.renewal = match (term, &self.source) {
            (Some(term), _) => LoginRenewal::Waiting(Box::pin(sleep_until(term.renewal()))),
            (None, Some(source)) if source.is_pushed() => {
                LoginRenewal::Asking(ResolvingLogin::renew(source, current.as_ref()))
            }
            (None, _) => LoginRenewal::Never,
        };
        self.end = term.map(|term| Box::pin(sleep_until(term.end())));
        self.current = current;
        (self.backoff, self.failure) = (first_backoff(), None);
    }

    /// Waits for the next step.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<LoginStep> {
        if let Some(end) = &mut self.end
            && end.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(LoginStep::Close(self.ended()));
        }
        loop {
            match (&mut self.renewal, &self.source) {
                (LoginRenewal::Waiting(time), Some(source)) => {
                    ready!(time.as_mut().poll(cx));
                    let renewal = ResolvingLogin::renew(source, self.current.as_ref());
                    self.renewal = LoginRenewal::Asking(renewal);
                }
                (LoginRenewal::Asking(resolving), _) => match ready!(resolving.poll_unpin(cx)) {
                    Ok(login) => {
                        let mut pipeline = Pipeline::with_capacity(1);
                        login.add_to(&mut pipeline);
                        self.renewal = LoginRenewal::Sent(login);
                        return Poll::Ready(LoginStep::Send(pipeline));
                    }
                    Err(text) => self.failed(Reason::Auth(text)),
                },
                _ => return Poll::Pending,
            }
        }
    }

    /// Returns whether an `AUTH` waits for its answer.
    pub(super) fn is_sent(&self) -> bool {
        matches!(self.renewal, LoginRenewal::Sent(_))
    }

    /// Handles the answer to the `AUTH` that [`poll`](Self::poll) returned.
    pub(super) fn answered(&mut self, answer: &Value) {
        let LoginRenewal::Sent(login) = std::mem::replace(&mut self.renewal, LoginRenewal::Never)
        else {
            return;
        };
        match refused_login(answer, true) {
            Ok(()) => {
                crate::log::debug!(server = %self.server, "authenticated with new credentials");
                self.set(Some(login));
            }
            Err(reason) => self.failed(login.hide(reason)),
        }
    }

    fn failed(&mut self, reason: Reason) {
        crate::log::warn!(
            server = %self.server,
            %reason,
            "cannot renew the credentials; the connection stays open until they end"
        );
        self.renewal = LoginRenewal::Waiting(Box::pin(sleep(self.backoff.after(Duration::ZERO))));
        self.failure = Some(reason);
    }

    /// Returns the reason for a connection whose login has expired.
    fn ended(&self) -> Reason {
        let why = match (&self.failure, &self.renewal) {
            (Some(Reason::Auth(text)), _) => text.to_string(),
            (Some(reason), _) => reason.to_string(),
            (None, LoginRenewal::Sent(_)) => {
                "the server did not answer the login with the new ones".into()
            }
            (None, LoginRenewal::Asking(_)) => {
                "the credentials callback has not returned new ones yet".into()
            }
            (None, LoginRenewal::Never | LoginRenewal::Waiting(_)) => {
                "the connection was not used meanwhile".into()
            }
        };
        Reason::Auth(format!("the credentials have expired and were not renewed: {why}").into())
    }
}

fn first_backoff() -> Backoff {
    Backoff::new(FIRST_PAUSE, LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use ::redis::ServerError;
    use tokio::time::Instant;

    use super::*;
    use crate::{
        node::redis::{AuthToken, side_connection::SideConnection, wire::Wire},
        sync::atomic::{AtomicUsize, Ordering},
    };

    const TERM: Duration = Duration::from_secs(100);

    type BoxError = Box<dyn std::error::Error + Send + Sync>;

    /// The login of a callback that returns tokens with a term, except in its calls with these
    /// numbers.
    async fn login(
        except: impl Fn(usize) -> Option<BoxError> + Send + Sync + 'static,
    ) -> (ConnectionLogin, Arc<AtomicUsize>) {
        let calls = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&calls);
        let source = Credentials::callback(move || {
            let number = counter.fetch_add(1, Ordering::SeqCst);
            let error = except(number);
            async move {
                error.map_or(Ok(()), Err)?;
                Ok(AuthToken::new("app", format!("s3cret-{number}")).valid_for(TERM))
            }
        });
        let current = source.resolve().await.unwrap();
        (ConnectionLogin::new(&"node".into(), Some(source), Some(current)), calls)
    }

    async fn step(login: &mut ConnectionLogin) -> LoginStep {
        poll_fn(|cx| login.poll(cx)).await
    }

    fn sent(step: &LoginStep) -> String {
        let LoginStep::Send(pipeline) = step else { panic!("{step:?}") };
        String::from_utf8(pipeline.get_packed_pipeline()).unwrap()
    }

    fn refusal() -> Value {
        let error = b"-WRONGPASS s3cret-1 is no password\r\n";
        let value = ::redis::parse_redis_value(error).unwrap();
        assert!(matches!(value, Value::ServerError(ServerError { .. })));
        value
    }

    #[tokio::test(start_paused = true)]
    async fn renewal_comes_before_the_end() {
        let (mut login, calls) = login(|_| None).await;
        let begun = Instant::now();

        for number in 1..20 {
            let auth = sent(&step(&mut login).await);
            assert!(auth.contains("AUTH") && auth.contains(&format!("s3cret-{number}")), "{auth}");
            let tenths = begun.elapsed().as_secs_f64() / TERM.as_secs_f64() * 10.0;
            let turns = f64::from(number);
            assert!((7.0 * turns..=8.1 * turns).contains(&tenths), "{number}: {tenths}");
            login.answered(&Value::Okay);
        }

        assert_eq!(calls.load(Ordering::SeqCst), 20);
    }

    #[tokio::test(start_paused = true)]
    async fn failures_are_repeated_with_backoff() {
        let (mut login, calls) =
            login(|number| (1..5).contains(&number).then(|| "no".into())).await;
        let begun = Instant::now();

        assert!(sent(&step(&mut login).await).contains("s3cret-5"));
        assert!(begun.elapsed() < TERM);

        login.answered(&refusal());
        assert!(sent(&step(&mut login).await).contains("s3cret-6"));

        login.answered(&Value::Okay);
        assert!(login.failure.is_none());
        assert_eq!(calls.load(Ordering::SeqCst), 7);
    }

    #[tokio::test(start_paused = true)]
    async fn end_shows_the_last_failure() {
        let (mut login, calls) = login(|number| (number > 0).then(|| "no identity".into())).await;
        let begun = Instant::now();
        let LoginStep::Close(reason) = step(&mut login).await else { panic!("{login:?}") };
        let shown = format!("{reason} {login:?}");
        assert!(shown.contains("no identity") && !shown.contains("s3cret"), "{shown}");
        assert!(begun.elapsed() >= TERM && begun.elapsed() < TERM * 11 / 10);
        let calls = calls.load(Ordering::SeqCst);
        assert!((4..20).contains(&calls), "{calls}");
    }

    #[tokio::test(start_paused = true)]
    async fn refusal_hides_the_new_password() {
        let (mut login, _) = login(|_| None).await;
        assert!(sent(&step(&mut login).await).contains("s3cret-1"));
        login.answered(&refusal());
        let reason = login.failure.clone().unwrap();
        assert_eq!(reason, Reason::Auth("WRONGPASS *** is no password".into()));
        assert!(login.current().unwrap().password.ends_with("-0"));
    }

    #[tokio::test(start_paused = true)]
    async fn callback_that_hangs_is_bounded() {
        let source = Credentials::callback(std::future::pending);
        let begun = Instant::now();
        let error = source.resolve().await.unwrap_err();
        assert!(error.contains("did not return within 10s"), "{error}");
        assert_eq!(begun.elapsed().as_secs(), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn callbacks_that_panic_are_errors() {
        for source in [
            Credentials::callback(|| async { panic!("on purpose") }),
            Credentials::callback(|| -> std::future::Pending<_> { panic!("on purpose") }),
        ] {
            assert!(source.resolve().await.unwrap_err().contains("panicked"));
        }
    }

    /// A provider that replays its latest item, like the providers of the redis crate.
    #[cfg(feature = "redis-1")]
    struct Provider(tokio::sync::watch::Sender<Result<&'static str, &'static str>>);

    #[cfg(feature = "redis-1")]
    impl ::redis::StreamingCredentialsProvider for Provider {
        fn subscribe(
            &self,
        ) -> Pin<
            Box<dyn futures_util::Stream<Item = ::redis::RedisResult<::redis::BasicAuth>> + Send>,
        > {
            let items = (self.0.subscribe(), true);
            Box::pin(futures_util::stream::unfold(items, |(mut items, is_first)| async move {
                if !is_first {
                    items.changed().await.ok()?;
                }
                let item = *items.borrow_and_update();
                let item = item
                    .map(|password| ::redis::BasicAuth::new("app".into(), password.into()))
                    .map_err(|error| ::redis::RedisError::from(std::io::Error::other(error)));
                Some((item, (items, false)))
            }))
        }
    }

    #[cfg(feature = "redis-1")]
    #[tokio::test(start_paused = true)]
    async fn pushed_credentials_are_sent() {
        let (items, _keep) = tokio::sync::watch::channel(Ok("one"));
        let source = Credentials::provider(Provider(items.clone()));
        let current = source.resolve().await.unwrap();
        assert_eq!(&*current.password, "one");
        let mut login = ConnectionLogin::new(&"node".into(), Some(source), Some(current));
        let early = tokio::time::timeout(TERM, step(&mut login)).await;
        assert!(early.is_err(), "the same password is no news: {early:?}");

        let _ = items.send_replace(Ok("two"));
        assert!(sent(&step(&mut login).await).contains("two"));
        login.answered(&refusal());
        assert!(sent(&step(&mut login).await).contains("two"), "it is repeated");
        login.answered(&Value::Okay);
        let _ = items.send_replace(Err("no identity"));
        let _ = items.send_replace(Ok("three"));
        assert!(sent(&step(&mut login).await).contains("three"));
        assert!(!format!("{login:?}").contains("three"));
    }

    #[cfg(feature = "redis-1")]
    #[tokio::test(start_paused = true)]
    async fn failing_provider_is_an_error() {
        let (items, _keep) = tokio::sync::watch::channel(Err("no identity"));
        let source = Credentials::provider(Provider(items));
        assert!(source.resolve().await.unwrap_err().contains("no identity"));
    }

    #[tokio::test(start_paused = true)]
    async fn tokens_have_any_length() {
        for (valid_for, is_usable) in
            [(Duration::ZERO, false), (Duration::from_nanos(1), true), (Duration::MAX, true)]
        {
            let source = Credentials::callback(move || async move {
                Ok(AuthToken::new("app", "s3cret").valid_for(valid_for))
            });
            assert_eq!(source.resolve().await.is_ok(), is_usable, "{valid_for:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn side_connection_logs_in_again() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let (login, _) = login(|_| None).await;
        let (ours, mut server) = tokio::io::duplex(1024);
        let mut connection = SideConnection::new(Wire::new(Box::new(ours)), login);
        let commands = Arc::new(crate::sync::Mutex::new(Vec::new()));
        let seen = Arc::clone(&commands);
        tokio::spawn(async move {
            let mut buffer = [0; 1024];
            while let Ok(count @ 1..) = server.read(&mut buffer).await {
                let text = String::from_utf8_lossy(&buffer[..count]).into_owned();
                let answer = if text.contains("AUTH") { "+OK\r\n" } else { "+PONG\r\n" };
                crate::sync::lock(&seen).push(text);
                server.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        let mut ping = Pipeline::with_capacity(1);
        ping.cmd("PING");
        for _ in 0..26 {
            let answers = connection.ask_within(&ping, TERM, 1024).await.unwrap();
            assert_eq!(answers, [Value::SimpleString("PONG".into())]);
            sleep(TERM / 20).await;
        }
        let commands = crate::sync::lock(&commands);

        let logins = commands.iter().filter(|command| command.contains("AUTH")).count();

        assert_eq!((logins, commands.len()), (1, 27));

        drop(commands);
        sleep(TERM).await;
        let error = connection.ask_within(&ping, TERM, 1024).await.unwrap_err();
        assert!(error.to_string().contains("was not used"), "{error}");
    }
}
