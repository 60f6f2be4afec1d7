//! One connection in use: operations in, batches out, answers back.

mod answers;
mod look;

use std::{
    collections::VecDeque,
    future::Future,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use ::redis::{Pipeline, RedisResult, Value};
use futures_util::{StreamExt, stream::FuturesOrdered};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, MissedTickBehavior},
};

use super::{
    RedisSettings,
    batch::{Group, group},
    encode::{By, Encoder},
    enrol::{Admin, Tag},
    handshake::{Driver, Link},
    memory::Memory,
    node::Request,
    server_clock::ServerClock,
    status::Status,
    supervisor::Member,
};
use crate::{error::Reason, time::Timestamp};

/// The most operations in one write.
const MAX_BATCH: usize = 128;
/// So often it is looked how the server stands, and its clock is read.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// A connection without an answer for so many node timeouts hangs, and is replaced.
const HANG_TIMEOUTS: u32 = 10;
const MIN_HANG: Duration = Duration::from_millis(200);

pub(super) enum Ending {
    /// The node was dropped; everything that was sent is answered.
    Closed,
    /// The connection is not usable any more.
    Broken(Reason),
}

/// What comes in for a node.
#[derive(Debug)]
pub(super) struct Inlets {
    pub(super) requests: mpsc::UnboundedReceiver<Request>,
    pub(super) admin: mpsc::UnboundedReceiver<Admin>,
}

pub(super) struct Session<'a> {
    link: Link,
    member: &'a Member,
    settings: &'a RedisSettings,
    status: &'a Status,
    memory: &'a mut Memory,
    /// The tag with which the server would vote for us.
    tag: Tag,
    /// The first digits of the server's replication id, for the strict clock guard.
    history: Arc<str>,
    /// A look is under way.
    looking: bool,
    /// Something was found changed: it is to be looked at again, now.
    look_now: bool,
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
    /// The same by a clock that is never put forward: that would look like silence.
    waiting_since: Instant,
    /// What the deadlines in it were made of.
    server_clock: ServerClock,
    content: Content,
}

enum Content {
    Look,
    Admin(oneshot::Sender<Result<Vec<Value>, Reason>>),
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
    answers: &mut FuturesOrdered<F>,
) -> Event {
    std::future::poll_fn(|cx| {
        let mut drive =
            |cx: &mut Context<'_>| !driver.is_terminated() && driver.as_mut().poll(cx).is_ready();
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
        member: &'a Member,
        status: &'a Status,
        memory: &'a mut Memory,
    ) -> Self {
        Self {
            link,
            member,
            settings: &member.set.settings,
            status,
            memory,
            tag: Tag::new(""),
            history: "".into(),
            looking: false,
            look_now: false,
            batches: VecDeque::new(),
            spoilt: None,
        }
    }

    pub(super) async fn serve(mut self, inlets: &mut Inlets) -> Ending {
        let Inlets { requests, admin } = inlets;
        self.begin();
        let hang = (self.settings.node_timeout * HANG_TIMEOUTS).max(MIN_HANG);
        let mut look = tokio::time::interval(hang.min(LOOK_INTERVAL));
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last_look = self.settings.clock.now();
        let mut answers = FuturesOrdered::new();
        let mut incoming = Vec::with_capacity(MAX_BATCH);
        let mut open = true;
        loop {
            if !open && self.batches.is_empty() {
                return Ending::Closed;
            }
            // What was read before the connection ended is answered first.
            if self.link.driver.is_terminated() && answers.is_empty() {
                return self.break_off(Reason::Disconnected);
            }
            if self.look_now && !self.looking {
                last_look = self.settings.clock.now();
                let look = self.look(last_look);
                answers.push_back(self.send(look));
            }
            tokio::select! {
                biased;
                event = next_event(&mut self.link.driver, &mut answers) => match event {
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
                Some(admin) = admin.recv() => match admin {
                    Admin::Check => self.look_now = true,
                    Admin::Run(pipeline, waiting) => {
                        self.push(self.settings.clock.now(), Content::Admin(waiting));
                        answers.push_back(self.send(pipeline));
                    }
                },
                _ = look.tick() => {
                    let now = self.settings.clock.now();
                    let waited = self.batches.front().map(|batch| batch.waiting_since.elapsed());
                    if waited.is_some_and(|waited| waited >= hang) {
                        return self.break_off(Reason::TimedOut);
                    }
                    if now.since(last_look) >= LOOK_INTERVAL {
                        self.look_now = true;
                    }
                }
            }
        }
    }

    fn push(&mut self, sent: Timestamp, content: Content) {
        let server_clock = self.link.server_clock;
        let waiting_since = Instant::now();
        self.batches.push_back(Batch { sent, waiting_since, server_clock, content });
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
        let mut requests = Self::fresh(incoming.drain(..), now);
        // They may have come before it was known that the server has no vote.
        if self.status.barred().is_some() {
            let mut others = Vec::with_capacity(requests.len());
            for request in requests {
                match self.status.bars(&request.op) {
                    Some(reason) => request.not_sent(reason),
                    None => others.push(request),
                }
            }
            requests = others;
        }
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
            keys: &self.member.set.keys,
            digests: &self.link.digests,
            tag: self.tag.text(),
            server_clock: self.link.server_clock,
            now,
            may_grant: !self.memory.offsets.is_barred(now),
            strict: &self.strict(),
        };
        let mut pipeline = Pipeline::with_capacity(groups.len());
        for group in &groups {
            pipeline.add_command(encoder.encode(group, by));
        }
        self.push(now, Content::Operations(groups));
        pipeline
    }

    /// What the scripts are told of the strict clock guard.
    fn strict(&self) -> String {
        let Some(within) = self.settings.guards.clock else { return String::new() };
        let wall = self.settings.clock.wall();
        let micros = |time: Duration| time.as_micros().min(9_999_999_999_999_999);
        let (from, to) = (micros(wall.saturating_sub(within)), micros(wall + within));
        format!("{}{from:016}{to:016}", self.history)
    }
}
