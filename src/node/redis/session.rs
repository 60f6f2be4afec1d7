//! One connection in use: operations in, batches out, answers back.

use std::{
    collections::VecDeque,
    future::Future,
    task::{Context, Poll},
    time::Duration,
};

use ::redis::{Pipeline, RedisResult, Value};
use futures_util::{StreamExt, stream::FuturesOrdered};
use tokio::{sync::mpsc, time::MissedTickBehavior};

use super::{
    RedisSettings,
    batch::{Group, group},
    decode::{Redo, connection_reason, decode},
    encode::{By, Encoder, Keys},
    handshake::{self, Driver, Link},
    node::Request,
    server_clock::ServerClock,
    status::Status,
};
use crate::{
    error::Reason,
    node::{Answer, Op},
    time::Timestamp,
};

/// The most operations in one write.
const MAX_BATCH: usize = 128;
/// An idle connection is looked at this often, and the server's clock read.
const PING_INTERVAL: Duration = Duration::from_secs(1);
/// A connection without an answer for so many node timeouts hangs, and is replaced.
const HANG_TIMEOUTS: u32 = 10;
const MIN_HANG: Duration = Duration::from_millis(200);

pub(super) enum Ending {
    /// The node was dropped; everything that was sent is answered.
    Closed,
    /// The connection is not usable any more.
    Broken(Reason),
}

pub(super) struct Session<'a> {
    link: Link,
    keys: &'a Keys,
    settings: &'a RedisSettings,
    status: &'a Status,
    /// In the order in which they were written, and so in the order of their answers.
    batches: VecDeque<Batch>,
    /// When one operation last spoilt a call for its neighbours.
    spoilt: Option<Timestamp>,
}

/// For so long after that, calls are not shared: what is asked again comes behind what was written
/// meanwhile, and that is to remain the exception.
const ALONE: Duration = Duration::from_secs(10);

struct Batch {
    sent: Timestamp,
    content: Content,
}

enum Content {
    Ping,
    /// One group for each command.
    Operations(Vec<Group>),
}

type Answers = RedisResult<Vec<Value>>;

enum Event {
    Answers(Answers),
    Closed,
}

/// Moves bytes until a batch is answered, or the connection ends.
async fn next_event<F: Future<Output = Answers>>(
    driver: &mut Driver,
    closed: &mut bool,
    answers: &mut FuturesOrdered<F>,
) -> Event {
    std::future::poll_fn(|cx| {
        let mut drive = |cx: &mut Context<'_>| {
            let ends = !*closed && driver.as_mut().poll(cx).is_ready();
            *closed |= ends;
            ends
        };
        let ended = drive(cx);
        if let Poll::Ready(Some(result)) = answers.poll_next_unpin(cx) {
            return Poll::Ready(Event::Answers(result));
        }
        // A new batch was just handed to the driver: it is written now, before other nodes' turn.
        if ended || drive(cx) { Poll::Ready(Event::Closed) } else { Poll::Pending }
    })
    .await
}

impl<'a> Session<'a> {
    pub(super) fn new(
        link: Link,
        keys: &'a Keys,
        settings: &'a RedisSettings,
        status: &'a Status,
    ) -> Self {
        Self { link, keys, settings, status, batches: VecDeque::new(), spoilt: None }
    }

    pub(super) async fn serve(mut self, requests: &mut mpsc::UnboundedReceiver<Request>) -> Ending {
        let hang = (self.settings.node_timeout * HANG_TIMEOUTS).max(MIN_HANG);
        let mut look = tokio::time::interval(hang.min(PING_INTERVAL));
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last_ping = self.settings.clock.now();
        let mut answers = FuturesOrdered::new();
        let mut incoming = Vec::with_capacity(MAX_BATCH);
        let mut open = true;
        let mut closed = false;
        loop {
            if !open && self.batches.is_empty() {
                return Ending::Closed;
            }
            // What was read before the connection ended is answered first.
            if closed && answers.is_empty() {
                return self.break_off(Reason::Disconnected);
            }
            tokio::select! {
                biased;
                event = next_event(&mut self.link.driver, &mut closed, &mut answers) => match event {
                    Event::Closed => {}
                    Event::Answers(result) => match self.on_answers(result) {
                        Ok(None) => {}
                        Ok(Some(again)) => answers.push_back(self.send(again)),
                        Err(reason) => return self.break_off(reason),
                    },
                },
                count = requests.recv_many(&mut incoming, MAX_BATCH), if open => {
                    if count == 0 {
                        open = false;
                    } else if let Some(pipeline) = self.batch(&mut incoming) {
                        answers.push_back(self.send(pipeline));
                    }
                }
                _ = look.tick() => {
                    let now = self.settings.clock.now();
                    let waited = self.batches.front().map(|batch| now.since(batch.sent));
                    if waited.is_some_and(|waited| waited >= hang) {
                        return self.break_off(Reason::TimedOut);
                    }
                    if now.since(last_ping) >= PING_INTERVAL {
                        last_ping = now;
                        let ping = self.ping(now);
                        answers.push_back(self.send(ping));
                    }
                }
            }
        }
    }

    /// Asks for the clock; a server that refused something is tried with a write as well.
    fn ping(&mut self, now: Timestamp) -> Pipeline {
        let mut pipeline = Pipeline::with_capacity(2);
        pipeline.cmd("TIME");
        if self.status.refuses() {
            handshake::add_prefill(&mut pipeline, self.keys);
        }
        self.batches.push_back(Batch { sent: now, content: Content::Ping });
        pipeline
    }

    /// The future only moves bytes: what is asked and who waits stays in `batches`, so that a
    /// connection that breaks answers everyone with the true reason.
    fn send(&self, pipeline: Pipeline) -> impl Future<Output = Answers> + use<> {
        let mut connection = self.link.connection.clone();
        async move {
            let count = pipeline.len();
            connection.send_packed_commands(&pipeline, 0, count).await
        }
    }

    /// Turns what came in into one write, leaving out what is stale.
    fn batch(&mut self, incoming: &mut Vec<Request>) -> Option<Pipeline> {
        let now = self.settings.clock.now();
        let requests = Self::fresh(incoming.drain(..), now);
        if requests.is_empty() {
            return None;
        }
        Some(self.write(self.group(requests, now), By::Digest, now))
    }

    fn group(&self, requests: Vec<Request>, now: Timestamp) -> Vec<Group> {
        match self.spoilt {
            Some(at) if now.since(at) < ALONE => requests.into_iter().map(|r| vec![r]).collect(),
            _ => group(requests),
        }
    }

    fn fresh(requests: impl Iterator<Item = Request>, now: Timestamp) -> Vec<Request> {
        let mut fresh = Vec::with_capacity(requests.size_hint().0);
        for request in requests {
            if request.op.is_stale(now) {
                request.not_sent(Reason::Stale);
            } else {
                fresh.push(request);
            }
        }
        fresh
    }

    fn write(&mut self, groups: Vec<Group>, by: By, now: Timestamp) -> Pipeline {
        let encoder = Encoder {
            keys: self.keys,
            digests: &self.link.digests,
            tag: "",
            server_clock: self.link.server_clock,
            now,
        };
        let mut pipeline = Pipeline::with_capacity(groups.len());
        for group in &groups {
            pipeline.add_command(encoder.encode(group, by));
        }
        self.batches.push_back(Batch { sent: now, content: Content::Operations(groups) });
        pipeline
    }

    /// Hands out the answers of the oldest batch; gives back what has to be sent again.
    fn on_answers(&mut self, result: Answers) -> Result<Option<Pipeline>, Reason> {
        let Some(batch) = self.batches.front() else {
            return Err(Reason::Protocol("an answer to nothing".into()));
        };
        let sent = batch.sent;
        let values = result.map_err(|error| match connection_reason(&error) {
            // The operations of this batch were sent: they may have run.
            Reason::NotConnected(_) => Reason::Disconnected,
            other => other,
        })?;
        let Some(Batch { content, .. }) = self.batches.pop_front() else { return Ok(None) };
        let groups = match content {
            Content::Operations(groups) => groups,
            Content::Ping => {
                let micros = values
                    .first()
                    .map_or(Err(Reason::Protocol("no answer to TIME".into())), handshake::time)?;
                self.link.server_clock = ServerClock::new(sent, micros);
                self.status.set_round_trip(self.settings.clock.now().since(sent));
                if matches!(values.get(1), Some(Value::Int(_))) {
                    self.status.set_obliging();
                }
                return Ok(None);
            }
        };
        let mut unusable = None;
        let (mut forgotten, mut apart) = (Vec::new(), Vec::new());
        let mut values = values.into_iter();
        for group in groups {
            match decode(&group, values.next().unwrap_or(Value::Nil)) {
                Ok(answers) => {
                    for (request, decoded) in group.into_iter().zip(answers) {
                        if let Some(micros) = decoded.server_micros {
                            self.link.server_clock = ServerClock::new(sent, micros);
                        }
                        if self.note(&request.op, &decoded.result) {
                            unusable = decoded.result.clone().err();
                        }
                        request.answer(decoded.result);
                    }
                }
                Err(Redo::WithText) => forgotten.extend(group),
                Err(Redo::Apart) => {
                    self.spoilt = Some(self.settings.clock.now());
                    apart.extend(group);
                }
            }
        }
        match unusable {
            // A server that has become a replica, say: down until it greets as one that votes.
            Some(reason) => Err(reason),
            None => Ok(self.resend(forgotten, apart)),
        }
    }

    /// What an answer says of the server; true if the connection is of no use any more.
    fn note(&self, op: &Op, result: &Result<Answer, Reason>) -> bool {
        match result {
            Ok(_) if matches!(op, Op::Acquire { .. }) => self.status.set_obliging(),
            // Shown before the answer is told: who has it finds the node down.
            Err(reason @ (Reason::ReadOnly | Reason::Loading | Reason::Auth(_))) => {
                self.status.set_down(reason.clone());
                return true;
            }
            Err(reason @ (Reason::OutOfMemory | Reason::PersistenceFailing | Reason::Busy)) => {
                self.status.set_refusing(reason);
            }
            _ => {}
        }
        false
    }

    /// A server that forgot its scripts gets their text; operations that failed together, one of
    /// them for all, are asked for one by one. In the old order, and without what is over by now:
    /// it must not run behind its release.
    fn resend(&mut self, forgotten: Vec<Request>, apart: Vec<Request>) -> Option<Pipeline> {
        let now = self.settings.clock.now();
        // Both at once is rare; then all of it goes by text.
        let by = if forgotten.is_empty() { By::Digest } else { By::Text };
        let again = forgotten.into_iter().chain(apart);
        let (over, again): (Vec<_>, Vec<_>) =
            again.partition(|request: &Request| request.op.is_over());
        for request in over {
            request.not_sent(Reason::Stale);
        }
        let requests = Self::fresh(again.into_iter(), now);
        if requests.is_empty() {
            return None;
        }
        let groups = self.group(requests, now);
        Some(self.write(groups, by, now))
    }

    fn break_off(mut self, reason: Reason) -> Ending {
        // Everything that follows is told at once that the node is down.
        self.status.set_down(reason.clone());
        // What was written may have run, whatever ended the connection.
        let told = if reason.may_have_run() { reason.clone() } else { Reason::Disconnected };
        for batch in std::mem::take(&mut self.batches) {
            if let Content::Operations(groups) = batch.content {
                for request in groups.into_iter().flatten() {
                    request.answer(Err(told.clone()));
                }
            }
        }
        Ending::Broken(reason)
    }
}
