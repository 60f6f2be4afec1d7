use std::{future::poll_fn, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use ::redis::{PushInfo, PushKind, Value};
use futures_util::FutureExt;

use super::board::Board;
use crate::{
    error::Reason,
    node::redis::{
        Endpoint,
        decode::{reason, text},
        handshake::{self, TIMEOUT},
        status::Status,
        supervisor::{FIRST_BACKOFF, LAST_BACKOFF, Member, jittered},
        wire::{Command, Wire},
    },
};

/// Who may not listen is asked again this seldom.
const REFUSED_BACKOFF: Duration = Duration::from_secs(10);
/// Maximum memory of one message, in bytes: a channel and a number.
const MAX_MESSAGE: usize = 64 * 1024;
/// Interval between looks at whether the connection still leads anywhere.
const PING_INTERVAL: Duration = Duration::from_secs(1);

/// The task behind a node's subscriptions; it ends when the node is dropped.
#[derive(Debug)]
pub(crate) struct Listener {
    endpoint: Endpoint,
    member: Member,
    status: Arc<Status>,
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
        status: Arc<Status>,
        board: Arc<Board>,
    ) -> Self {
        Self { endpoint, member, status, board }
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
            crate::log::debug!(node = %self.endpoint.name, %reason, "releases are not told");
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
        let mut wire = match self.connect().await {
            Ok(wire) => wire,
            Err(reason) => return Ending::Broken(reason),
        };
        *backoff = FIRST_BACKOFF;
        let mut ping = tokio::time::interval(PING_INTERVAL);
        let mut command = Command::default();
        // Since when something is asked and nothing heard.
        let mut waiting_since = None;
        let mut left = MAX_MESSAGE;
        loop {
            if self.board.is_closed() || self.board.is_idle() {
                return Ending::Idle;
            }
            let changes = self.board.changes();
            push(&mut wire, &mut command, "SUBSCRIBE", &changes.enter);
            push(&mut wire, &mut command, "UNSUBSCRIBE", &changes.leave);
            tokio::select! {
                biased;
                said = poll_fn(|cx| wire.poll_said(cx, &mut left)) => {
                    (waiting_since, left) = (None, MAX_MESSAGE);
                    match said {
                        Ok(Value::Array(items)) => self.tell(items),
                        Ok(Value::ServerError(error)) => {
                            if let Err(reason) = self.denied(reason(&error)) {
                                return Ending::Broken(reason);
                            }
                        }
                        // The answer to a PING, where no channel is listened to yet.
                        Ok(_) => {}
                        Err(reason) => return Ending::Broken(reason),
                    }
                }
                () = self.board.changed.notified() => {}
                now = ping.tick() => {
                    let since = *waiting_since.get_or_insert(now);
                    if since.elapsed() > TIMEOUT {
                        return Ending::Broken(Reason::TimedOut);
                    }
                    command.clear();
                    wire.push(command.arg("PING"));
                }
            }
        }
    }

    /// Passes on what the server says by itself.
    fn tell(&self, items: Vec<Value>) {
        let mut items = items.into_iter();
        let kind = match items.next().as_ref().map(text).as_deref() {
            Some("message") => PushKind::Message,
            Some("subscribe") => {
                self.allowed("subscribe");
                PushKind::Subscribe
            }
            Some("unsubscribe") => {
                self.allowed("unsubscribe");
                PushKind::Unsubscribe
            }
            _ => return,
        };
        self.board.on_push(&PushInfo { kind, data: items.collect() });
    }

    fn allowed(&self, command: &'static str) {
        if self.status.is_denied_something() {
            self.status.set_denied(|known| known.listening(command, false));
        }
    }

    /// Shows in the node's health what is denied to us. A channel that can't be left is no reason to
    /// end: what is told on it is not wanted, and the connection ends when nobody waits.
    fn denied(&self, reason: Reason) -> Result<(), Reason> {
        let Reason::NoPermission(text) = &reason else { return Err(reason) };
        let is_leaving = text.contains("'unsubscribe'");
        let command = if is_leaving { "unsubscribe" } else { "subscribe" };
        if !text.contains("'ping'") {
            self.status.set_denied(|known| known.listening(command, true));
        }
        if is_leaving { Ok(()) } else { Err(reason) }
    }

    async fn connect(&self) -> Result<Wire, Reason> {
        let access = &self.member.set.settings.access;
        let opening = handshake::open_for_pushes(&self.endpoint, access);
        match tokio::time::timeout(TIMEOUT, opening).await {
            Ok(wire) => wire,
            Err(_) => Err(Reason::TimedOut),
        }
    }
}

/// Adds a command on channels to the next write, if there are any.
fn push(wire: &mut Wire, command: &mut Command, name: &str, channels: &[String]) {
    if channels.is_empty() {
        return;
    }
    command.clear();
    command.arg(name);
    for channel in channels {
        command.arg(&**channel);
    }
    wire.push(command);
}
