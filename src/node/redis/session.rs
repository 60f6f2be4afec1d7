//! One connection in use: operations in, batches out, answers back.

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
    decode::{Decoded, Redo, connection_reason, decode},
    encode::{By, Encoder},
    enrol::{Admin, Standing, Tag},
    handshake::{self, Driver, Link, Look},
    memory::Memory,
    node::Request,
    server_clock::ServerClock,
    status::{Bar, BarKind, Status},
    supervisor::Member,
};
use crate::{
    error::Reason,
    node::{Answer, ClockOffset, Op},
    quorum::{
        offsets::{Interval, Reading},
        rules,
    },
    time::Timestamp,
};

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

    /// Takes what the greeting found out.
    fn begin(&mut self) {
        let Look { sent, received, standing } = std::mem::replace(
            &mut self.link.look,
            Look {
                sent: Timestamp::ZERO,
                received: Timestamp::ZERO,
                standing: Err(Reason::Unknown),
            },
        );
        // Barred or not is decided before the node is up.
        if let Ok(standing) = &standing {
            self.observe(sent, received, standing.server_micros);
            self.stand(sent, received, standing);
        }
        self.status.set_up(self.link.version.clone(), received.since(sent));
        if let Err(reason) = &standing {
            self.unenrolled(reason);
        }
    }

    /// It can't be told whether the server may vote.
    fn unenrolled(&self, reason: &Reason) {
        self.status.set_refusing(reason);
        self.status.set_bar(BarKind::Enrolment, Some(Bar::Reason(reason.clone())));
    }

    /// Asks how the server stands; one that refused something is tried with a write as well.
    fn look(&mut self, now: Timestamp) -> Pipeline {
        let mut pipeline = Pipeline::with_capacity(4);
        handshake::add_look(&mut pipeline, &self.member.set);
        if self.status.refuses() {
            pipeline.cmd("HSET").arg(&self.member.set.keys.meta).arg("probe").arg(now.as_nanos());
        }
        self.push(now, Content::Look);
        (self.looking, self.look_now) = (true, false);
        pipeline
    }

    fn push(&mut self, sent: Timestamp, content: Content) {
        let server_clock = self.link.server_clock;
        let waiting_since = Instant::now();
        self.batches.push_back(Batch { sent, waiting_since, server_clock, content });
    }

    fn on_look(&mut self, sent: Timestamp, values: Vec<Value>) -> Result<(), Reason> {
        let received = self.settings.clock.now();
        self.looking = false;
        let mut values = values.into_iter();
        match handshake::look(&mut values)? {
            Ok(standing) => {
                self.link.server_clock = ServerClock::new(sent, standing.server_micros);
                self.observe(sent, received, standing.server_micros);
                self.stand(sent, received, &standing);
                if matches!(values.next(), Some(Value::Int(_))) {
                    self.status.set_obliging();
                }
            }
            Err(reason) => self.unenrolled(&reason),
        }
        if !self.memory.offsets.is_barred(self.settings.clock.now()) {
            self.status.set_bar(BarKind::Clock, None);
        }
        Ok(())
    }

    fn stand(&mut self, sent: Timestamp, received: Timestamp, standing: &Standing) {
        // Others may hold locks for longer than we ever do.
        let max_ttl = standing.max_ttl.max(self.settings.max_ttl);
        let slack = rules::drift(max_ttl, self.settings.drift_factor);
        self.memory.offsets.set_window(max_ttl, slack);
        self.tag = Tag::active(&standing.incarnation, &self.member.set.layout.hash);
        self.history = Arc::clone(&standing.history);
        let trip = received.since(sent);
        // The server read its clock between the two, most likely in the middle.
        let wall = self.settings.clock.wall().saturating_sub(trip / 2);
        let ahead = i128::from(standing.server_micros) - wall.as_micros().cast_signed();
        let offset = ClockOffset::new(i64::try_from(ahead).unwrap_or(i64::MAX), trip / 2);
        self.status.set_known(standing, offset, trip);
        self.member.set.report(self.member.index, standing, received);
    }

    /// Takes a reading of the server's clock; false if it must not grant.
    fn observe(&mut self, sent: Timestamp, received: Timestamp, server_micros: u64) -> bool {
        let (nodes, offsets) = (&self.member.set, &mut self.memory.offsets);
        let corrections = nodes.corrections(self.member.index);
        if self.memory.corrections != corrections {
            self.memory.corrections = corrections;
            offsets.forgive();
        }
        let reading = Interval::new(sent, received, server_micros);
        if let Reading::Jumped(by) = offsets.observe(reading, received) {
            nodes.jumped(self.member.index, by, (received, offsets.barred_until()));
        }
        !self.memory.offsets.is_barred(received)
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
        if let Some(reason) = self.status.barred() {
            let (votes, others) =
                requests.into_iter().partition::<Vec<_>, _>(|request| request.op.is_vote());
            for request in votes {
                request.not_sent(reason.clone());
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
            Content::Look => return self.on_look(sent, values).map(|()| None),
            Content::Admin(waiting) => {
                // Who asked may have lost interest.
                let _ = waiting.send(Ok(values));
                return Ok(None);
            }
        };
        let received = self.settings.clock.now();
        let mut unusable = None;
        let (mut forgotten, mut apart) = (Vec::new(), Vec::new());
        let mut values = values.into_iter();
        for group in groups {
            match decode(&group, values.next().unwrap_or(Value::Nil)) {
                Ok(answers) => {
                    // One call reads the clock once for all.
                    let micros = answers.iter().find_map(|answer| answer.server_micros);
                    let sound = micros.is_none_or(|micros| {
                        self.link.server_clock = ServerClock::new(sent, micros);
                        self.observe(sent, received, micros)
                    });
                    for (request, mut decoded) in group.into_iter().zip(answers) {
                        self.judge(&request.op, &mut decoded, sound);
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

    /// A grant of a server whose clock jumped does not count; nor is a release the last word that
    /// an unanswered grant may still come behind.
    fn judge(&mut self, op: &Op, decoded: &mut Decoded, sound: bool) {
        if decoded.granted && !sound {
            let by = self.status.barred().unwrap_or(Reason::ClockJumped { by_micros: 0 });
            decoded.result = Err(Reason::ClockJumped {
                by_micros: match by {
                    Reason::ClockJumped { by_micros } => by_micros,
                    _ => 0,
                },
            });
        }
        if let (Op::Release { lease }, Ok(_), Some(micros)) =
            (op, &decoded.result, decoded.server_micros)
            && !self.memory.settles(lease.nonce(), micros)
        {
            decoded.result = Err(Reason::Unsettled);
        }
    }

    /// What an answer says of the server; true if the connection is of no use any more.
    fn note(&mut self, op: &Op, result: &Result<Answer, Reason>) -> bool {
        match result {
            Ok(_) if matches!(op, Op::Acquire { .. }) => self.status.set_obliging(),
            // Shown before the answer is told: who has it finds the node down.
            Err(reason @ (Reason::ReadOnly | Reason::Loading | Reason::Auth(_))) => {
                self.status.set_down(reason.clone());
                return true;
            }
            Err(Reason::WrongTag { .. } | Reason::TtlTooLong) => self.look_now = true,
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
            match batch.content {
                Content::Operations(groups) => {
                    for request in groups.into_iter().flatten() {
                        self.memory.unanswered(&request.op, batch.sent, batch.server_clock);
                        request.answer(Err(told.clone()));
                    }
                }
                Content::Admin(waiting) => {
                    let _ = waiting.send(Err(told.clone()));
                }
                Content::Look => {}
            }
        }
        Ending::Broken(reason)
    }
}
