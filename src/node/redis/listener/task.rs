use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use ::redis::{AsyncConnectionConfig, PushInfo, aio::MultiplexedConnection};
use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};

use super::board::Board;
use crate::{
    error::Reason,
    node::redis::{
        Endpoint,
        decode::connection_reason,
        handshake::{self, Driver, TIMEOUT},
        supervisor::{FIRST_BACKOFF, LAST_BACKOFF, Member, jittered},
    },
};

/// Who may not listen is asked again this seldom.
const REFUSED_BACKOFF: Duration = Duration::from_secs(10);
/// So often it is seen whether the connection still leads anywhere.
const PING_INTERVAL: Duration = Duration::from_secs(1);

/// The task behind a node's subscriptions; it ends when the node is dropped.
#[derive(Debug)]
pub(crate) struct Listener {
    endpoint: Endpoint,
    member: Member,
    board: Arc<Board>,
}

enum Ending {
    /// Nobody listens any more.
    Idle,
    Broken(Reason),
}

impl Listener {
    pub(in crate::node::redis) fn new(
        endpoint: Endpoint,
        member: Member,
        board: Arc<Board>,
    ) -> Self {
        Self { endpoint, member, board }
    }

    pub(crate) async fn run(self) {
        let mut backoff = FIRST_BACKOFF;
        while !self.board.is_closed() {
            if self.board.is_idle() {
                self.board.changed.notified().await;
                continue;
            }
            // A callback for credentials, or a connector, is foreign code.
            let ending = AssertUnwindSafe(self.listen(&mut backoff)).catch_unwind().await;
            self.board.reset();
            let reason = match ending {
                Ok(Ending::Idle) => continue,
                Ok(Ending::Broken(reason)) => reason,
                Err(_) => Reason::NotConnected("listening panicked".into()),
            };
            tracing::debug!(node = %self.endpoint.name, %reason, "releases are not told");
            let refused = matches!(reason, Reason::NoPermission(_) | Reason::Auth(_));
            let pause = if refused { REFUSED_BACKOFF } else { jittered(backoff) };
            backoff = (backoff * 2).min(LAST_BACKOFF);
            self.pause(pause).await;
        }
    }

    /// Until the time is over, or nobody waits any more.
    async fn pause(&self, pause: Duration) {
        let sleep = tokio::time::sleep(pause);
        tokio::pin!(sleep);
        while !self.board.is_closed() && !self.board.is_idle() {
            tokio::select! {
                () = &mut sleep => return,
                () = self.board.changed.notified() => {}
            }
        }
    }

    /// One connection from its opening to its end.
    async fn listen(&self, backoff: &mut Duration) -> Ending {
        self.board.reset();
        let (connection, mut driver) = match self.connect().await {
            Ok(link) => link,
            Err(reason) => return Ending::Broken(reason),
        };
        *backoff = FIRST_BACKOFF;
        let mut asked = FuturesUnordered::new();
        let mut ping = tokio::time::interval(PING_INTERVAL);
        loop {
            if self.board.is_closed() || self.board.is_idle() {
                return Ending::Idle;
            }
            let changes = self.board.changes();
            if !changes.enter.is_empty() {
                asked.push(request(&connection, "SUBSCRIBE", changes.enter));
            }
            if !changes.leave.is_empty() {
                asked.push(request(&connection, "UNSUBSCRIBE", changes.leave));
            }
            tokio::select! {
                () = &mut driver => return Ending::Broken(Reason::Disconnected),
                () = self.board.changed.notified() => {}
                Some(answer) = asked.next(), if !asked.is_empty() => {
                    if let Err(reason) = answer {
                        return Ending::Broken(reason);
                    }
                }
                _ = ping.tick() => asked.push(request(&connection, "PING", Vec::new())),
            }
        }
    }

    async fn connect(&self) -> Result<(MultiplexedConnection, Driver), Reason> {
        let board = Arc::clone(&self.board);
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(None)
            .set_connection_timeout(None)
            .set_push_sender(move |push: PushInfo| {
                board.on_push(&push);
                Ok::<(), ()>(())
            });
        let settings = &self.member.set.settings;
        let opening = handshake::open_for_pushes(&self.endpoint, settings, config);
        match tokio::time::timeout(TIMEOUT, opening).await {
            Ok(link) => link,
            Err(_) => Err(Reason::TimedOut),
        }
    }
}

/// Asks one thing; an answer that does not come says that the connection leads nowhere.
fn request(
    connection: &MultiplexedConnection,
    command: &'static str,
    channels: Vec<String>,
) -> impl Future<Output = Result<(), Reason>> + use<> {
    let mut connection = connection.clone();
    async move {
        let mut cmd = ::redis::cmd(command);
        cmd.arg(channels);
        match tokio::time::timeout(TIMEOUT, connection.send_packed_command(&cmd)).await {
            Ok(Ok(::redis::Value::ServerError(error))) => {
                Err(crate::node::redis::decode::reason(&error))
            }
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(connection_reason(&error)),
            Err(_) => Err(Reason::TimedOut),
        }
    }
}
