//! A connection to a server that is no node: opened when there is something to ask, and opened anew
//! where it broke or hangs.

use std::{
    panic::AssertUnwindSafe,
    time::{Duration, Instant},
};

use ::redis::{Pipeline, Value};
use futures_util::FutureExt;

use super::{Access, Endpoint, decode::reason, handshake, wire::Wire};
use crate::error::Reason;

/// Time after a failed attempt in which there is no other: questions fail at once.
const PAUSE: Duration = Duration::from_millis(100);

/// What each command was answered, or why it was refused.
pub(crate) type Answers = Vec<Result<Value, Reason>>;

/// One server, asked by one task.
#[derive(Debug)]
pub(crate) struct Single {
    endpoint: Endpoint,
    access: Access,
    timeout: Duration,
    wire: Option<Wire>,
    /// When the last attempt to connect failed, and why.
    failed: Option<(Instant, Reason)>,
}

impl Single {
    /// `timeout`: for one call of [`ask`](Self::ask), connecting included.
    pub(crate) const fn new(endpoint: Endpoint, access: Access, timeout: Duration) -> Self {
        Self { endpoint, access, timeout, wire: None, failed: None }
    }

    /// Sends commands, and returns their answers, or why one was refused. Commands may be run twice: over
    /// a connection that breaks or is no longer of use, and then over a new one.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection: the commands may have run.
    pub(crate) async fn ask(&mut self, pipeline: &Pipeline) -> Result<Answers, Reason> {
        // The stream, a callback for credentials and a connector are foreign code.
        let asked = AssertUnwindSafe(self.ask_in_time(pipeline)).catch_unwind().await;
        asked.unwrap_or_else(|_| Err(self.panicked("asking")))
    }

    async fn ask_in_time(&mut self, pipeline: &Pipeline) -> Result<Answers, Reason> {
        let timeout = self.timeout;
        let asking = async {
            if let Some(wire) = self.wire.take()
                && let Ok(answers) = self.ask_over(wire, pipeline).await
                && self.wire.is_some()
            {
                return Ok(answers);
            }
            // The server may have closed a connection that was idle, or have restarted.
            let wire = self.connect().await?;
            self.ask_over(wire, pipeline).await
        };
        tokio::time::timeout(timeout, asking).await.unwrap_or(Err(Reason::TimedOut))
    }

    /// Keeps the connection, unless it broke or a new one may do better.
    async fn ask_over(&mut self, mut wire: Wire, pipeline: &Pipeline) -> Result<Answers, Reason> {
        let answers = wire.ask_within(pipeline, self.timeout).await?;
        let said = |answer| match answer {
            Value::ServerError(error) => Err(reason(&error)),
            answer => Ok(answer),
        };
        let answers: Answers = answers.into_iter().map(said).collect();
        let refusals = || answers.iter().filter_map(|answer| answer.as_ref().err());
        if !refusals().any(ends_connection) {
            self.wire = Some(wire);
        }
        Ok(answers)
    }

    async fn connect(&mut self) -> Result<Wire, Reason> {
        if let Some((at, reason)) = &self.failed
            && at.elapsed() < PAUSE
        {
            return Err(reason.clone());
        }
        // Caught here as well: a connector that panics is not asked again at once.
        let opening = AssertUnwindSafe(handshake::open_beside(&self.endpoint, &self.access));
        let opened = opening.catch_unwind().await;
        let opened = opened.unwrap_or_else(|_| Err(self.panicked("connecting")));
        self.failed = opened.as_ref().err().map(|reason| (Instant::now(), reason.clone()));
        opened
    }

    /// Logs a panic, whose message its hook has shown. The connection went with what panicked.
    fn panicked(&self, step: &str) -> Reason {
        crate::log::warn!(server = %self.endpoint.name, "{step} panicked; the next question connects anew");
        Reason::NotConnected(format!("{step} panicked").into())
    }
}

/// Whether another server, or another login, may answer better. A node denies single names; what is
/// asked here has one login's permission or none.
const fn ends_connection(reason: &Reason) -> bool {
    reason.ends_connection() || matches!(reason, Reason::NoPermission(_))
}
