//! The connection on which a server reports releases. It is open only while a waiter is subscribed.

use std::{future::poll_fn, panic::AssertUnwindSafe, pin::pin, sync::Arc, time::Duration};

use ::redis::Value;
use futures_util::FutureExt;
use tokio::time::Instant;

use super::{
    Endpoint,
    backoff::Backoff,
    connection_login::{ConnectionLogin, LoginStep},
    directory::Location,
    enrol::Membership,
    handshake::{self, TIMEOUT},
    server_error::reason,
    status::Status,
    values::text,
    wire::{Command, Wire},
};
use crate::{
    error::Reason,
    node::{Hint, subscriptions::Subscriptions},
};

/// Pause before the next attempt after the server has denied the subscription.
const REFUSED_BACKOFF: Duration = Duration::from_secs(10);
/// Maximum memory of one message, in bytes. A message has a channel and a number.
const MAX_MESSAGE: usize = 64 * 1024;
/// Interval between PINGs.
const PING_INTERVAL: Duration = Duration::from_secs(1);

/// The task that serves a node's subscriptions; it ends when the node is dropped.
#[derive(Debug)]
pub(crate) struct Listener {
    endpoint: Endpoint,
    member: Membership,
    status: Arc<Status>,
    subscriptions: Arc<Subscriptions>,
    /// The prefix of the names of channels.
    channel_prefix: String,
}

enum ListenEnd {
    /// No name has a subscriber.
    Idle,
    Broken(Reason),
}

impl Listener {
    pub(super) fn new(
        endpoint: Endpoint,
        member: Membership,
        status: Arc<Status>,
        subscriptions: Arc<Subscriptions>,
    ) -> Self {
        let channel_prefix = format!("{}:free:", member.set.settings.prefix);
        Self { endpoint, member, status, subscriptions, channel_prefix }
    }

    pub(crate) async fn run(self) {
        let mut backoff = Backoff::default();
        while !self.subscriptions.is_closed() {
            if self.subscriptions.is_idle() {
                self.subscriptions.changed.notified().await;
                continue;
            }
            // A connector is code outside this crate.
            let mut opened = None;
            let ending = AssertUnwindSafe(self.listen(&mut opened)).catch_unwind().await;
            self.subscriptions.reset();
            let reason = match ending {
                Ok(ListenEnd::Idle) => continue,
                Ok(ListenEnd::Broken(reason)) => reason,
                Err(_) => Reason::NotConnected("listening panicked".into()),
            };
            crate::log::debug!(node = %self.endpoint.name, %reason, "cannot listen for releases");
            let refused = matches!(reason, Reason::NoPermission(_) | Reason::Auth(_));
            // The denied commands are in the node's health.
            if !matches!(reason, Reason::NoPermission(_)) {
                self.status.listening_broke(reason);
            }
            let lasted = opened.map_or(Duration::ZERO, |at: Instant| at.elapsed());
            let pause = backoff.after(lasted);
            self.pause(if refused { REFUSED_BACKOFF } else { pause }).await;
        }
    }

    /// Waits for `pause`, or until the last subscriber has left.
    async fn pause(&self, pause: Duration) {
        let sleep = tokio::time::sleep(pause);
        tokio::pin!(sleep);
        while !self.subscriptions.is_closed() && !self.subscriptions.is_idle() {
            tokio::select! {
                biased;
                () = &mut sleep => return,
                () = self.subscriptions.changed.notified() => {}
            }
        }
    }

    /// Opens a connection, stores when it was opened, and serves it until it ends.
    async fn listen(&self, opened: &mut Option<Instant>) -> ListenEnd {
        self.subscriptions.reset();
        let (mut wire, mut login, location) = match self.connect().await {
            Ok(connected) => connected,
            Err(reason) => return ListenEnd::Broken(reason),
        };
        let mut moved = pin!(self.endpoint.left(Some(&location)));
        *opened = Some(Instant::now());
        let mut ping = tokio::time::interval(PING_INTERVAL);
        let mut command = Command::default();
        // The time of the first PING since the last message of the server.
        let mut waiting_since = None;
        let mut left = MAX_MESSAGE;
        loop {
            if self.subscriptions.is_closed() || self.subscriptions.is_idle() {
                return ListenEnd::Idle;
            }
            let changes = self.subscriptions.take_changes();
            self.push(&mut wire, &mut command, "SUBSCRIBE", &changes.enter);
            self.push(&mut wire, &mut command, "UNSUBSCRIBE", &changes.leave);
            tokio::select! {
                biased;
                reply = poll_fn(|cx| wire.poll_reply(cx, &mut left)) => {
                    (waiting_since, left) = (None, MAX_MESSAGE);
                    match reply {
                        Ok(Value::Array(items)) => self.on_message(&items),
                        Ok(Value::ServerError(error)) => match reason(&error) {
                            Reason::Auth(_) if login.is_sent() => {
                                login.answered(&Value::ServerError(error));
                            }
                            reason => if let Err(reason) = self.denied(reason) {
                                return ListenEnd::Broken(login.hide(reason));
                            }
                        },
                        // The reply to AUTH.
                        Ok(ok @ Value::Okay) => login.answered(&ok),
                        // The reply to a PING on a connection without subscriptions.
                        Ok(_) => {}
                        Err(reason) => return ListenEnd::Broken(reason),
                    }
                }
                () = self.subscriptions.changed.notified() => {}
                reason = &mut moved => return ListenEnd::Broken(reason),
                step = poll_fn(|cx| login.poll(cx)) => match step {
                    LoginStep::Send(auth) => {
                        // A RESP2 connection with subscriptions does not accept AUTH. UNSUBSCRIBE
                        // without a channel ends all subscriptions; they are repeated in the same
                        // write.
                        command.clear();
                        wire.push(command.arg("UNSUBSCRIBE"));
                        wire.push_all(&auth);
                        self.subscriptions.repeat();
                    }
                    LoginStep::Close(reason) => return ListenEnd::Broken(reason),
                },
                now = ping.tick() => {
                    let since = *waiting_since.get_or_insert(now);
                    if since.elapsed() > TIMEOUT {
                        return ListenEnd::Broken(Reason::TimedOut);
                    }
                    command.clear();
                    wire.push(command.arg("PING"));
                }
            }
        }
    }

    /// Handles a message that the server pushed.
    fn on_message(&self, items: &[Value]) {
        let [kind, channel, rest @ ..] = items else { return };
        let (kind, channel) = (text(kind), text(channel));
        let name = channel.strip_prefix(&*self.channel_prefix);
        match &*kind {
            "message" => match name.map(|name| (name, name.strip_prefix('\r'))) {
                Some((_, Some(owner))) => {
                    if let Some(message) = rest.first() {
                        let name = text(message);
                        let hint = match name.strip_prefix('\n') {
                            Some(name) => Hint::Withdrawn { name: name.into() },
                            None => Hint::Asked { name },
                        };
                        self.subscriptions.tell(owner, &hint);
                    }
                }
                Some((name, None)) => {
                    let listening = rest.first().and_then(|count| text(count).parse().ok());
                    self.subscriptions.released(name, listening);
                }
                None => {}
            },
            "subscribe" => {
                self.status.set_listening("subscribe", false);
                if let Some(name) = name {
                    self.subscriptions.confirmed(name);
                }
            }
            "unsubscribe" => self.status.set_listening("unsubscribe", false),
            _ => {}
        }
    }

    /// Records a denied command in the node's health. A denied UNSUBSCRIBE does not fail the
    /// connection: messages on that channel are ignored, and the connection is closed with the last
    /// subscription.
    fn denied(&self, reason: Reason) -> Result<(), Reason> {
        let Reason::NoPermission(text) = &reason else { return Err(reason) };
        let is_leaving = text.contains("'unsubscribe'");
        let command = if is_leaving { "unsubscribe" } else { "subscribe" };
        if !text.contains("'ping'") {
            self.status.set_listening(command, true);
        }
        if is_leaving { Ok(()) } else { Err(reason) }
    }

    async fn connect(&self) -> Result<(Wire, ConnectionLogin, Location), Reason> {
        let access = &self.member.set.settings.access;
        let location = self.endpoint.locate().await?;
        let opening = handshake::open_for_pushes(&self.endpoint, access, &location.address);
        let (wire, login) = opening.await?;
        Ok((wire, login, location))
    }

    /// Adds a command with the channels of these names to the next write, if there are any names.
    fn push(&self, wire: &mut Wire, command: &mut Command, what: &str, names: &[Arc<str>]) {
        if names.is_empty() {
            return;
        }
        command.clear();
        command.arg(what);
        for name in names {
            command.joined(&self.channel_prefix, name);
        }
        wire.push(command);
    }
}
