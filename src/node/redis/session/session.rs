//! One connection in use: sends batches of operations and reads their answers.

use std::{
    future::poll_fn,
    pin::pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use ::redis::Pipeline;
use tokio::{sync::mpsc, time::MissedTickBehavior};

use super::{
    check_progress::{CHECK_INTERVAL, CheckProgress},
    direct::{DirectBatch, DirectContext, DirectWriter, encode_batch},
    phase::SessionPhase,
    send_queue::SendQueue,
    sent_batch::{BatchContent, OperationBatch, SentBatch, SentBatches},
    votes::RefusalRecord,
    voting_tag::VotingTag,
};
use crate::{
    error::Reason,
    node::redis::{
        Endpoint, RedisSettings,
        connection_login::LoginStep,
        encode::{Encoder, ScriptRef, script_of, token_limit},
        enrol::{AdminRequest, Membership},
        handshake::{self, ReadyConnection},
        plain_form::DeleteIfEqual,
        reconnect_state::ReconnectState,
        request::NodeRequest,
        scripts::{self, OperationScript},
        status::Status,
        wire::{Command, MAX_READS},
    },
    protocol::{AcquireOp, Op},
    switches::{self, Switch},
    time::Timestamp,
};

/// Maximum number of operations in one write.
const MAX_BATCH: usize = 128;
/// Maximum number of unanswered operations on a connection. Written operations can't be overtaken,
/// and run even if their requests have ended.
const MAX_UNANSWERED: usize = 1024;
/// Number of node timeouts without an answer after which a connection is replaced.
const HANG_TIMEOUTS: u32 = 10;
const MIN_HANG: Duration = Duration::from_millis(200);

/// The next step of a connection.
enum SessionStep {
    Answered(SentBatch),
    Login(LoginStep),
}

pub(in crate::node::redis) enum SessionEnd {
    /// The node was dropped, and every operation was answered.
    Closed,
    /// The connection is no longer usable.
    Broken(Reason),
}

/// Incoming requests of a node.
#[derive(Debug)]
pub(in crate::node::redis) struct NodeChannels {
    pub(in crate::node::redis) requests: mpsc::UnboundedReceiver<NodeRequest>,
    pub(in crate::node::redis) admin: mpsc::UnboundedReceiver<AdminRequest>,
    /// Lets senders write to an idle connection.
    pub(in crate::node::redis) direct: Arc<DirectWriter>,
}

/// The connection as its senders see it, until the session ends.
struct LentConnection(Arc<DirectWriter>);

impl Drop for LentConnection {
    fn drop(&mut self) {
        // Its requests are answered by their drop.
        drop(self.0.close());
    }
}

pub(in crate::node::redis) struct Session<'a> {
    pub(super) link: ReadyConnection,
    pub(super) endpoint: &'a Endpoint,
    pub(super) member: &'a Membership,
    pub(super) settings: &'a RedisSettings,
    pub(super) status: &'a Arc<Status>,
    pub(super) reconnect: &'a mut ReconnectState,
    pub(super) phase: SessionPhase,
    pub(super) checks: CheckProgress,
    /// The tag under which the server votes for this client; `None` if it does not.
    pub(super) vote: Option<Arc<VotingTag>>,
    /// Operations that met another tag, and are sent again once the current tag is known.
    pub(super) mistagged: Vec<NodeRequest>,
    pub(super) batches: SentBatches,
    /// Operations that wait for room.
    pub(super) send_queue: SendQueue,
    /// The buffer for a command.
    command: Command,
    direct: LentConnection,
    pub(super) refusals: RefusalRecord,
    /// Whether the server has granted an acquire to a script on this connection: what is acquired by plain commands
    /// is released by a script.
    pub(super) runs_scripts: bool,
    /// The server's command for the release of such a lease.
    pub(super) deletes: Option<DeleteIfEqual>,
}

impl<'a> Session<'a> {
    pub(in crate::node::redis) fn new(
        link: ReadyConnection,
        endpoint: &'a Endpoint,
        member: &'a Membership,
        status: &'a Arc<Status>,
        reconnect: &'a mut ReconnectState,
        direct: &Arc<DirectWriter>,
    ) -> Self {
        Self {
            direct: LentConnection(Arc::clone(direct)),
            link,
            endpoint,
            member,
            settings: &member.set.settings,
            status,
            reconnect,
            phase: SessionPhase::Greeting,
            checks: CheckProgress::new(member.set.settings.clock.now()),
            vote: None,
            mistagged: Vec::new(),
            batches: SentBatches::default(),
            send_queue: SendQueue::default(),
            command: Command::default(),
            refusals: RefusalRecord::new(),
            runs_scripts: false,
            deletes: member.set.traits(member.index).deletes,
        }
    }

    pub(in crate::node::redis) async fn serve(mut self, channels: &mut NodeChannels) -> SessionEnd {
        let NodeChannels { requests, admin, direct } = channels;
        let hang = (self.settings.node_timeout * HANG_TIMEOUTS).max(MIN_HANG);
        let mut check_ticks = tokio::time::interval(hang.min(CHECK_INTERVAL));
        check_ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut incoming = Vec::with_capacity(MAX_BATCH);
        let location = self.link.location.clone();
        let endpoint = self.endpoint;
        let mut moved = pin!(endpoint.left(Some(&location)));
        loop {
            if self.batches.is_empty() && self.send_queue.is_empty() {
                match &self.phase {
                    SessionPhase::Closing if self.mistagged.is_empty() => {
                        return SessionEnd::Closed;
                    }
                    SessionPhase::Leaving(reason) => {
                        let reason = reason.clone();
                        return self.break_off(reason);
                    }
                    SessionPhase::Greeting | SessionPhase::Serving | SessionPhase::Closing => {}
                }
            }
            if self.checks.may_begin() && !self.phase.is_leaving() {
                self.check_health(self.settings.clock.now());
            }
            self.lend();
            tokio::select! {
                biased;
                step = poll_fn(|cx| self.poll_step(cx)) => {
                    self.take_back();
                    if let Err(reason) = step.and_then(|step| self.on_step(step)) {
                        return self.break_off(reason);
                    }
                    self.fill();
                }
                count = requests.recv_many(&mut incoming, MAX_BATCH), if self.phase.is_serving() => {
                    self.take_back();
                    if count == 0 {
                        self.phase.close();
                    } else {
                        self.take_in(&mut incoming);
                    }
                }
                Some(admin) = admin.recv(), if self.phase.accepts_admin() => {
                    self.take_back();
                    match admin {
                        AdminRequest::Check => self.checks.is_due = true,
                        AdminRequest::Run(pipeline, waiting) => {
                            let now = self.settings.clock.now();
                            self.send_all(&pipeline, now, BatchContent::AdminRequest(waiting));
                        }
                    }
                }
                () = direct.unwritten() => self.take_back(),
                reason = &mut moved => return self.break_off(reason),
                _ = check_ticks.tick() => {
                    self.take_back();
                    let now = self.settings.clock.now();
                    if let Some(reason) = self.timed_out(hang) {
                        return self.break_off(reason);
                    }
                    self.status.set_queue_delay(self.send_queue.take_longest_wait(now));
                    self.update_checks(now, check_ticks.period());
                }
            }
        }
    }

    /// Lets senders write while nothing is under way.
    fn lend(&self) {
        let is_idle = self.phase.is_serving()
            && self.batches.is_empty()
            && self.send_queue.is_empty()
            && self.mistagged.is_empty()
            && self.link.wire.is_written();
        let (Some(socket), Some(vote)) = (&self.link.socket, &self.vote) else { return };
        if !is_idle {
            return;
        }
        let Self { link, deletes, runs_scripts, member, direct, .. } = self;
        direct.0.lend(|context| match context {
            Some(context) => {
                if !Arc::ptr_eq(&context.vote, vote) {
                    context.vote = Arc::clone(vote);
                }
                if !Arc::ptr_eq(&context.digests, &link.digests) {
                    context.digests = Arc::clone(&link.digests);
                }
                context.server_clock = link.server_clock;
                (context.deletes, context.runs_scripts) = (*deletes, *runs_scripts);
            }
            None => {
                *context = Some(DirectContext {
                    socket: socket.clone(),
                    set: Arc::clone(&member.set),
                    vote: Arc::clone(vote),
                    digests: Arc::clone(&link.digests),
                    server_clock: link.server_clock,
                    deletes: *deletes,
                    runs_scripts: *runs_scripts,
                });
            }
        });
    }

    /// Ends the turn of the senders, before the task writes.
    pub(super) fn take_back(&mut self) {
        if self.link.socket.is_some()
            && let Some(batch) = self.direct.0.take_back()
        {
            self.adopt(batch);
        }
    }

    /// Records what a sender has written.
    fn adopt(&mut self, batch: DirectBatch) {
        let DirectBatch { sent, waiting_since, commands, operations, unwritten } = batch;
        debug_assert!(self.batches.is_empty(), "the connection was idle");
        self.link.wire.push_bytes(&unwritten);
        self.checks.note_use(sent);
        self.batches.push(SentBatch {
            waiting_since,
            ..SentBatch::new(sent, commands, BatchContent::Operations(operations))
        });
    }

    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Result<SessionStep, Reason>> {
        if !self.phase.is_leaving()
            && let Poll::Ready(step) = self.link.login.poll(cx)
        {
            return Poll::Ready(Ok(SessionStep::Login(step)));
        }
        self.poll_answered(cx).map_ok(SessionStep::Answered)
    }

    /// Returns the reason to end a connection whose server has not answered for `hang`.
    fn timed_out(&self, hang: Duration) -> Option<Reason> {
        let is_greeting = self.phase.is_greeting();
        let limit = if is_greeting { hang.min(handshake::TIMEOUT) } else { hang };
        if self.batches.waited()? < limit || switches::is_out(Switch::Timeouts) {
            return None;
        }
        Some(if is_greeting { handshake::no_greeting(self.endpoint) } else { Reason::TimedOut })
    }

    fn on_step(&mut self, step: SessionStep) -> Result<(), Reason> {
        match step {
            SessionStep::Answered(batch) => return self.on_answers(batch),
            // Operations that were written before run under the former login.
            SessionStep::Login(LoginStep::Send(auth)) => {
                self.send_all(&auth, self.settings.clock.now(), BatchContent::Login);
            }
            // No operation was accepted yet that could be answered.
            SessionStep::Login(LoginStep::Close(reason)) if self.phase.is_greeting() => {
                return Err(reason);
            }
            SessionStep::Login(LoginStep::Close(reason)) => self.phase.leave(reason),
        }
        Ok(())
    }

    /// Writes and reads until the oldest batch is answered. Replies that are read before the end of
    /// the connection still count.
    fn poll_answered(&mut self, cx: &mut Context<'_>) -> Poll<Result<SentBatch, Reason>> {
        let is_broken = matches!(self.link.wire.poll_write(cx), Poll::Ready(Err(_)));
        for _ in 0..MAX_READS {
            // A sender may have written, and the server answered, since the previous check.
            if self.batches.is_empty()
                && self.link.socket.is_some()
                && let Some(batch) = self.direct.0.take_written()
            {
                self.adopt(batch);
            }
            let wire = &mut self.link.wire;
            match self.batches.first_mut() {
                None => wire.check_answered()?,
                Some(batch) => {
                    while !batch.is_answered() {
                        // `Disconnected`, as the commands may have run.
                        let answer = wire.answer(&mut batch.left);
                        let is_greeting = self.phase.is_greeting();
                        let answer = answer.map_err(|unreadable| {
                            if is_greeting { unreadable.into() } else { Reason::Disconnected }
                        })?;
                        let Some(answer) = answer else { break };
                        batch.answers.push(answer);
                    }
                }
            }
            if let Some(batch) = self.batches.pop_answered() {
                return Poll::Ready(Ok(batch));
            }
            match wire.poll_read(cx) {
                Poll::Ready(Ok(true)) => {}
                Poll::Pending if !is_broken => return Poll::Pending,
                _ => return Poll::Ready(Err(Reason::Disconnected)),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Adds commands to the next write.
    pub(super) fn send_all(&mut self, pipeline: &Pipeline, sent: Timestamp, content: BatchContent) {
        let commands = self.link.wire.push_all(pipeline);
        self.push(sent, commands, content);
    }

    /// Requests the digests of scripts from the server.
    pub(super) fn load(&mut self, scripts: Vec<OperationScript>, now: Timestamp) {
        let mut pipeline = Pipeline::with_capacity(scripts.len());
        scripts::load(&mut pipeline, &scripts);
        self.send_all(&pipeline, now, BatchContent::Scripts(scripts));
    }

    /// Records a batch, so that every caller gets the reason if the connection breaks.
    fn push(&mut self, sent: Timestamp, commands: usize, content: BatchContent) {
        self.batches.push(SentBatch::new(sent, commands, content));
    }

    /// Writes incoming operations in order, or queues them if there is no room for all.
    fn take_in(&mut self, incoming: &mut Vec<NodeRequest>) {
        let now = self.settings.clock.now();
        let since = self.status.take_stamp().unwrap_or(now);
        let has_room = self.batches.operations() + incoming.len() <= MAX_UNANSWERED;
        if self.send_queue.is_empty() && has_room {
            self.send_queue.note_wait(since, now);
            return self.write_fresh(incoming.drain(..), ScriptRef::Digest, now);
        }
        for request in incoming.drain(..) {
            self.send_queue.push(request, since);
        }
        self.fill();
    }

    /// Writes queued operations while there is room.
    fn fill(&mut self) {
        while !self.send_queue.is_empty() && self.batches.operations() < MAX_UNANSWERED {
            let now = self.settings.clock.now();
            let room = MAX_BATCH.min(MAX_UNANSWERED - self.batches.operations());
            let next = self.send_queue.next(room, now);
            for request in next.over {
                request.not_sent(Reason::Stale);
            }
            self.write_fresh(next.write.into_iter(), ScriptRef::Digest, now);
        }
    }

    /// Writes operations in one batch, except those that can't succeed any more.
    pub(super) fn write_fresh(
        &mut self,
        requests: impl Iterator<Item = NodeRequest>,
        by: ScriptRef,
        now: Timestamp,
    ) {
        let requests = self.fresh(requests, now);
        if !requests.is_empty() {
            self.write(requests, by, now);
        }
    }

    /// Returns the operations that can still succeed. The server may have lost its vote since they
    /// arrived, or since they were sent the first time. A token that is too far ahead of the
    /// server's clock for any node is not sent.
    fn fresh(
        &self,
        requests: impl Iterator<Item = NodeRequest>,
        now: Timestamp,
    ) -> Vec<NodeRequest> {
        let limit = token_limit(self.link.server_clock, now);
        let is_barred = self.status.barred().is_some();
        let mut fresh = Vec::with_capacity(requests.size_hint().0);
        for request in requests {
            if request.op.is_stale(now) {
                request.not_sent(Reason::Stale);
            } else if let Some(reason) =
                is_barred.then(|| self.status.refuses(&request.op)).flatten()
            {
                request.not_sent(reason);
            } else if matches!(&request.op, Op::Acquire(AcquireOp { token, .. }) if *token > limit)
            {
                request.not_sent(Reason::TokenAhead);
            } else {
                fresh.push(request);
            }
        }
        fresh
    }

    /// Writes operations in one batch.
    fn write(&mut self, mut requests: Vec<NodeRequest>, by: ScriptRef, now: Timestamp) {
        let ReadyConnection { wire, digests, server_clock, .. } = &mut self.link;
        let keys = &self.member.set.keys;
        let vote = self.vote.clone();
        let (tag, fences) = match &vote {
            Some(vote) => (vote.text(), &*vote.fences),
            None => ("", &*keys.no_fences),
        };
        let encoder = Encoder {
            keys,
            digests,
            tag,
            fences,
            layout: &self.member.set.layout.hash,
            server_clock: *server_clock,
            node_timeout: self.settings.node_timeout,
            now,
            may_grant: !self.reconnect.offsets.is_barred(now),
        };
        // Without a vote, the script stores nothing.
        let may_be_plain = vote.is_some() && self.runs_scripts;
        let push = |command: &Command| wire.push(command);
        let commands = encode_batch(
            &mut requests,
            &encoder,
            by,
            may_be_plain,
            self.deletes,
            &mut self.command,
            push,
        );
        self.checks.note_use(now);
        let scripted = requests.iter().filter(|request| !request.is_plain());
        let scripts = scripted.filter_map(|request| script_of(&request.op));
        let unknown: Vec<_> = scripts.filter(|script| digests.is_unknown(*script)).collect();
        let server_clock = *server_clock;
        let operations = OperationBatch { requests, by, vote, server_clock };
        self.push(now, commands, BatchContent::Operations(operations));
        if !unknown.is_empty() {
            let digests = Arc::make_mut(&mut self.link.digests);
            let unknown: Vec<_> = unknown.into_iter().filter(|it| digests.asks(*it)).collect();
            self.load(unknown, now);
        }
    }
}
