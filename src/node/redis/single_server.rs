//! A connection to a server that is not a node. It is opened when a command has to be sent, and
//! reopened after it broke or hung.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use ::redis::{Pipeline, Value};
use futures_util::FutureExt;
use tokio::time::{Instant, sleep_until};

use super::{
    Access, Endpoint,
    connection_login::{ConnectionLogin, ResolvingLogin},
    handshake,
    server_error::reason,
    side_connection::SideConnection,
    wire::MAX_LONG,
};
use crate::{
    error::Reason,
    log_budget::{LogBudget, MessageLevel},
};

/// Minimum time from one connection to the next. If the latest one failed, commands fail at once
/// during that time; if it was answered, they wait.
const PAUSE: Duration = Duration::from_millis(100);

/// The answer to each command, or why it was refused.
pub(crate) type CommandAnswers = Vec<Result<Value, Reason>>;

/// One server, used by one task.
#[derive(Debug)]
pub(crate) struct SingleServer {
    endpoint: Endpoint,
    access: Access,
    timeout: Duration,
    max_answers: usize,
    connection: Option<SideConnection>,
    /// The login of the next connection, which may take longer than one call.
    resolving: Option<ResolvingLogin>,
    /// The time at which the latest connection was opened or failed to open, and why it failed,
    /// unless it was answered.
    latest: Option<(Instant, Option<Reason>)>,
    log: LogBudget,
}

impl SingleServer {
    /// `timeout` is the timeout for one call of [`ask`](Self::ask), connecting included.
    pub(crate) fn new(endpoint: Endpoint, access: Access, timeout: Duration) -> Self {
        Self {
            endpoint,
            access,
            timeout,
            max_answers: MAX_LONG,
            connection: None,
            resolving: None,
            latest: None,
            log: LogBudget::new(Instant::now()),
        }
    }

    /// Limits the memory of the answers to one call, in bytes.
    pub(crate) fn with_max_answers(mut self, max_answers: usize) -> Self {
        self.max_answers = max_answers;
        self
    }

    /// Sends commands, and returns their answers, or why a command was refused. Commands may run
    /// twice: over a connection that breaks or is outdated, and then over a new one.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection: the commands may have run.
    pub(crate) async fn ask(&mut self, pipeline: &Pipeline) -> Result<CommandAnswers, Reason> {
        // The stream and the connector are code outside this crate.
        let asked = AssertUnwindSafe(self.ask_in_time(pipeline)).catch_unwind().await;
        asked.unwrap_or_else(|_| Err(self.panicked("asking")))
    }

    async fn ask_in_time(&mut self, pipeline: &Pipeline) -> Result<CommandAnswers, Reason> {
        let timeout = self.timeout;
        let asking = async {
            if let Some(mut connection) = self.connection.take()
                && self.logged(connection.check_idle().await).is_ok()
                && let Ok(answers) = self.ask_over(connection, pipeline).await
                && self.connection.is_some()
            {
                return Ok(answers);
            }
            // The server may have closed an idle connection, or have restarted.
            let connection = self.connect().await?;
            let asked = self.ask_over(connection, pipeline).await;
            let asked = asked.map_err(|reason| handshake::unanswered(&self.endpoint, reason));
            if let (Some((_, failed)), Err(reason)) = (&mut self.latest, &asked) {
                *failed = Some(reason.clone());
            }
            asked
        };
        tokio::time::timeout(timeout, asking).await.unwrap_or(Err(Reason::TimedOut))
    }

    /// Keeps the connection, unless it broke or a new one may work better.
    async fn ask_over(
        &mut self,
        mut connection: SideConnection,
        pipeline: &Pipeline,
    ) -> Result<CommandAnswers, Reason> {
        let answers = connection.ask_within(pipeline, self.timeout, self.max_answers).await?;
        // After an additional answer, every answer may belong to another command.
        self.logged(connection.check_answered())?;
        let said = |answer| match answer {
            Value::ServerError(error) => Err(reason(&error)),
            answer => Ok(answer),
        };
        let answers: CommandAnswers = answers.into_iter().map(said).collect();
        let refusals = || answers.iter().filter_map(|answer| answer.as_ref().err());
        if !refusals().any(ends_connection) {
            self.connection = Some(connection);
        }
        Ok(answers)
    }

    async fn connect(&mut self) -> Result<SideConnection, Reason> {
        match &self.latest {
            Some((at, Some(reason))) if at.elapsed() < PAUSE => return Err(reason.clone()),
            Some((at, _)) => sleep_until(*at + PAUSE).await,
            None => {}
        }
        // The panic is also caught here, so that a connector that panics is not called again at
        // once.
        let opened = AssertUnwindSafe(self.open()).catch_unwind().await;
        let opened = opened.unwrap_or_else(|_| Err(self.panicked("connecting")));
        self.latest = Some((Instant::now(), opened.as_ref().err().cloned()));
        opened
    }

    async fn open(&mut self) -> Result<SideConnection, Reason> {
        let Self { endpoint, access, timeout, resolving, .. } = self;
        let source = handshake::credentials(endpoint, access);
        let mut login = None;
        if let Some(credentials) = source {
            let task = resolving.get_or_insert_with(|| ResolvingLogin::start(credentials));
            // The error of the login has to come before the timeout of the call.
            let resolved = tokio::time::timeout(*timeout / 2, task).await;
            let not_yet = |_| Reason::Auth("the credentials callback has not returned yet".into());
            let resolved = resolved.map_err(not_yet)?;
            *resolving = None;
            login = Some(resolved.map_err(Reason::Auth)?);
        }
        let login = ConnectionLogin::new(&endpoint.name, source.cloned(), login);
        handshake::open_beside(endpoint, access, login).await
    }

    /// Closes the connection; the next call opens a new one.
    pub(crate) fn disconnect(&mut self, why: &str) {
        self.warn(&format!("closing the connection: the server {why}"));
        // The stream is code outside this crate.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(self.connection.take())));
    }

    /// Logs a panic, whose message the panic hook has shown. The connection was dropped with the
    /// code that panicked.
    fn panicked(&mut self, step: &str) -> Reason {
        self.warn(&format!("{step} panicked; the next command opens a new connection"));
        Reason::NotConnected(format!("{step} panicked").into())
    }

    /// Logs replies without a request.
    fn logged(&mut self, checked: Result<(), Reason>) -> Result<(), Reason> {
        if let Err(Reason::Protocol(_)) = &checked {
            self.warn("closing the connection: the server sent an unsolicited reply");
        }
        checked
    }

    /// Logs a warning; in excess, one a minute.
    fn warn(&mut self, what: &str) {
        let server = &*self.endpoint.name;
        let level = self.log.take(Instant::now());
        if level == MessageLevel::FirstInExcess {
            crate::log::warn!(%server, "this warning is frequent: from now on most occurrences are logged at DEBUG");
        }
        if level == MessageLevel::Own {
            crate::log::warn!(%server, "{what}");
        } else {
            crate::log::debug!(%server, "{what}");
        }
    }
}

/// Returns whether another server, or another login, may answer better. A node denies single names;
/// the commands here need one permission of the login.
const fn ends_connection(reason: &Reason) -> bool {
    reason.ends_connection() || matches!(reason, Reason::NoPermission(_))
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::TcpListener,
        sync::{Arc, mpsc},
    };

    use super::*;
    use crate::node::redis::SocketConnector;

    const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";

    fn single(url: &str) -> SingleServer {
        let endpoint = Endpoint::parse(1, url).unwrap();
        let access = Access {
            credentials: None,
            connector: Arc::new(SocketConnector::new()),
            #[cfg(feature = "tls")]
            tls: crate::node::redis::tls_config(None, std::slice::from_ref(&endpoint)).unwrap(),
        };
        SingleServer::new(endpoint, access, Duration::from_secs(10))
    }

    /// The runtime has not polled the socket for the reply, as the task did not yield.
    #[tokio::test]
    async fn fresh_surplus_reply_is_noticed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut single = single(&format!("redis://{}", listener.local_addr().unwrap()));
        let (go_on, may_go_on) = mpsc::channel();
        let (sent, is_sent) = mpsc::channel();
        let server = std::thread::spawn(move || {
            for text in ["+first\r\n", "+second\r\n"] {
                let (mut client, _) = listener.accept().unwrap();
                client.read_exact(&mut [0; PING.len()]).unwrap();
                client.write_all(text.as_bytes()).unwrap();
                may_go_on.recv().unwrap();
                client.write_all(b"+surplus\r\n").unwrap();
                sent.send(()).unwrap();
            }
        });
        let mut ping = Pipeline::with_capacity(1);
        ping.cmd("PING");
        for text in ["first", "second"] {
            let answers = single.ask(&ping).await.unwrap();
            assert_eq!(answers, [Ok(Value::SimpleString(text.into()))]);
            go_on.send(()).unwrap();
            is_sent.recv().unwrap();
        }

        server.join().unwrap();
    }
}
