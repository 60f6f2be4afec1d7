//! An end that a quorum of nodes has to store.

use std::{
    fmt,
    future::{Future, pending},
    sync::Arc,
    time::Duration,
};

use super::{
    Obligation,
    owed_ends::{ListedEnd, Owed, OwedKind},
};
#[cfg(feature = "scheduler")]
use crate::protocol::{ClaimOp, TickClaim};
use crate::{
    error::{LockError, LossCause, Reason},
    lock::{
        client::Client,
        lease::ActiveLease,
        lock::{Lock, Lost},
    },
    protocol::{Answer, Op, Record, RecordOp, RepairOp, formulas},
    sync::{Guard, Mutex, Notify},
    time::Timestamp,
};

/// An end that this process owes to a quorum of the nodes.
///
/// ```text
///            a quorum stores it
///   owed ─────────────────────────► stored
///     │ the lock ends
///     ▼      a quorum stores it
///   unprotected ──────────────────► stored, too late to exclude another run
///     │ the shutdown, the limit; an unknown outcome at once
///     ▼
///   given up
/// ```
///
/// # Invariants
///
/// * It ends once. Its lock is released after that, or after the loss of the lock, and never before.
/// * An unprotected end of done work, and one that is given up, is reported once.
pub(crate) struct OwedEnd {
    pub(super) client: Arc<Client>,
    pub(super) end: End,
    since: Timestamp,
    /// Time from which on no client asks for it.
    until: Timestamp,
    /// The lease of the lock that it keeps until it is stored.
    kept: Option<Arc<ActiveLease>>,
    state: Mutex<OwedState>,
    ended: Notify,
}

/// What is stored.
#[derive(Clone)]
pub(super) enum End {
    /// The record of ended work.
    Record { lease: Arc<ActiveLease>, name: Arc<str>, record: Arc<Record> },
    /// The claim of a run that has ended or never started.
    #[cfg(feature = "scheduler")]
    Run { job: Arc<str>, claim: Arc<TickClaim> },
}

pub(super) struct OwedState {
    nodes: Vec<NodeAnswer>,
    /// The lock that is kept until the end is stored.
    lock: Option<Lock>,
    pub(super) phase: OwedPhase,
    /// Whether it is carried on without its caller, and listed.
    is_listed: bool,
    /// Whether it was reported that another client may run the work again.
    pub(super) is_reported: bool,
}

/// The latest answer of a node.
#[derive(Clone)]
struct NodeAnswer {
    answer: Result<Answer, Reason>,
    is_sent: bool,
    /// Whether the operation does not depend on the lock's key.
    is_repair: bool,
}

impl NodeAnswer {
    fn is_stored(&self) -> bool {
        matches!(self.answer, Ok(Answer::Recorded(Some(_)) | Answer::Claimed))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OwedPhase {
    Owed,
    Stored {
        /// Whether no other client had begun then: the lock was valid, or a quorum had its key.
        in_time: bool,
    },
    GivenUp,
}

/// Why another client may run the work.
const LOCK_ENDED: &str = "its lock ended first";

impl OwedEnd {
    /// Sends the record of ended work to the nodes, until a quorum stores it. `lock` is kept until then.
    pub(crate) fn record(
        lock: Option<Lock>,
        lease: &Arc<ActiveLease>,
        name: &Arc<str>,
        record: &Arc<Record>,
        retain: Duration,
    ) -> Arc<Self> {
        debug_assert!(!retain.is_zero(), "a server refuses a record without a time");
        lease.charge().write(name, record, retain);
        let (name, record) = (Arc::clone(name), Arc::clone(record));
        let end = End::Record { lease: Arc::clone(lease), name, record };
        Self::begin(lease.client(), end, lock, retain)
    }

    /// Sends the end of a run to the nodes, until a quorum stores it, or a majority refuses it for a later
    /// claim. `lock` is kept until then.
    #[cfg(feature = "scheduler")]
    pub(crate) fn run(
        client: &Arc<Client>,
        lock: Option<Lock>,
        job: &Arc<str>,
        claim: TickClaim,
    ) -> Arc<Self> {
        /// Time after which it is given up.
        const MAX_AGE: Duration = Duration::from_secs(96 * 3600);
        let end = End::Run { job: Arc::clone(job), claim: Arc::new(claim) };
        Self::begin(client, end, lock, MAX_AGE)
    }

    /// Waits until a quorum stores it. Returns false if it is given up: a majority has a later claim.
    #[cfg(feature = "scheduler")]
    pub(crate) async fn is_stored(&self) -> bool {
        matches!(self.ended().await, OwedPhase::Stored { .. })
    }

    /// Returns whether a quorum has stored it; `None` while it is owed.
    #[cfg(feature = "scheduler")]
    pub(crate) fn stored(&self) -> Option<bool> {
        match self.state().phase {
            OwedPhase::Owed => None,
            OwedPhase::Stored { .. } => Some(true),
            OwedPhase::GivenUp => Some(false),
        }
    }

    fn begin(client: &Arc<Client>, end: End, lock: Option<Lock>, limit: Duration) -> Arc<Self> {
        let (now, kept) = (client.now(), lock.as_ref().map(|lock| Arc::clone(lock.lease())));
        if let Some(lease) = &kept {
            lease.keep_unattended();
        }
        let state = OwedState {
            nodes: vec![
                NodeAnswer {
                    answer: Err(Reason::TimedOut),
                    is_sent: false,
                    is_repair: false
                };
                client.nodes.len()
            ],
            lock: None,
            phase: OwedPhase::Owed,
            is_listed: false,
            is_reported: false,
        };
        let this = Arc::new(Self {
            client: Arc::clone(client),
            end,
            since: now,
            until: now + limit,
            kept,
            state: Mutex::new(state),
            ended: Notify::new(),
        });
        client.owed.add(Arc::clone(&this) as Arc<dyn ListedEnd>);
        for node in 0..client.nodes.len() {
            client.repeaters.send(node, Arc::clone(&this) as Arc<dyn Obligation>, this.until);
        }
        // A quorum may have answered meanwhile: the lock is released after the last node was sent the end.
        let over = {
            let mut state = this.state();
            if state.phase == OwedPhase::Owed {
                state.lock = lock;
                None
            } else {
                lock
            }
        };
        drop(over);
        this
    }

    /// Waits until a quorum stores it while the lock is valid, at most for `time`. After an error it is
    /// still owed, and [carried on](Self::carry_on).
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if the lock ended first, else [`LockError::NoQuorum`].
    pub(crate) async fn stored_within(self: &Arc<Self>, time: Duration) -> Result<(), LockError> {
        let lost = tokio::select! {
            biased;
            _ = self.ended() => None,
            cause = self.lock_lost() => Some(cause),
            () = self.client.sleep(time) => None,
        };
        // Read last: the lock is also released because a quorum has stored it.
        let phase = self.state().phase;
        if phase == (OwedPhase::Stored { in_time: true }) {
            return Ok(());
        }
        self.carry_on();
        Err(lost.map_or_else(|| self.failure(), LockError::lost))
    }

    /// Waits in the background until a quorum stores it, and carries it on otherwise.
    pub(crate) fn detach(self: &Arc<Self>, time: Duration) {
        let this = Arc::clone(self);
        self.client.spawner.spawn(Box::pin(async move { drop(this.stored_within(time).await) }));
    }

    /// Lets it continue without a caller: from now on it is listed, and the end of its lock is reported.
    pub(crate) fn carry_on(self: &Arc<Self>) {
        let has_room = {
            let mut state = self.state();
            if state.phase != OwedPhase::Owed || state.is_listed {
                return;
            }
            state.is_listed = true;
            // Under the mutex of this end, so that it is not removed before.
            self.client.owed.list(self.bytes())
        };
        crate::metrics::owed(1.0);
        if !has_room {
            return self.give_up("this process owes the maximum number of such ends");
        }
        self.log_owed();
        let this = Arc::clone(self);
        self.client.spawner.spawn(Box::pin(async move { this.watch().await }));
    }

    async fn watch(self: Arc<Self>) {
        if self.kept.is_none() {
            self.unprotected();
        }
        tokio::select! {
            biased;
            _ = self.ended() => return,
            _ = self.lock_lost() => self.unprotected(),
            () = self.client.sleep_until(self.until) => {}
        }
        tokio::select! {
            biased;
            _ = self.ended() => {}
            () = self.client.sleep_until(self.until) => self.cancel(),
        }
    }

    fn is_protected(&self) -> bool {
        match &self.end {
            End::Record { lease, .. } => lease.is_valid(),
            #[cfg(feature = "scheduler")]
            End::Run { .. } => self.kept.as_ref().is_some_and(|lease| lease.is_valid()),
        }
    }

    pub(super) fn state(&self) -> Guard<'_, OwedState> {
        crate::sync::lock(&self.state)
    }

    /// Waits for its last phase.
    async fn ended(&self) -> OwedPhase {
        loop {
            let ended = self.ended.notified();
            let phase = self.state().phase;
            if phase != OwedPhase::Owed {
                return phase;
            }
            ended.await;
        }
    }

    /// Waits until its lock is lost; for ever if it keeps none.
    fn lock_lost(&self) -> impl Future<Output = LossCause> + Send + use<> {
        let lost = self.kept.as_ref().map(|lease| Lost::new(Arc::clone(lease)));
        async move {
            match lost {
                Some(lost) => lost.await,
                None => pending().await,
            }
        }
    }

    /// Why it is not stored, or not in time.
    pub(crate) fn failure(&self) -> LockError {
        if let End::Record { lease, .. } = &self.end
            && !lease.is_valid()
        {
            return LockError::lost(lease.loss());
        }
        let answers: Vec<_> = self.state().nodes.iter().map(|node| node.answer.clone()).collect();
        self.client.no_quorum(&answers)
    }

    /// Another client may run the work from now on. A record of an unknown outcome is stored by the holder
    /// of the lock only.
    fn unprotected(&self) {
        if matches!(self.end, End::Record { .. }) {
            // The lock is also released because a quorum has stored it.
            self.report_in(OwedPhase::Owed, LOCK_ENDED);
        }
        let lock = self.state().lock.take();
        drop(lock);
        if matches!(&self.end, End::Record { record, .. } if !record.is_done) {
            self.finish(OwedPhase::GivenUp);
        }
    }

    /// Enters its last phase. Returns false if it has ended before.
    fn finish(&self, phase: OwedPhase) -> bool {
        let (lock, is_listed) = {
            let mut state = self.state();
            if state.phase != OwedPhase::Owed {
                return false;
            }
            state.phase = phase;
            (state.lock.take(), state.is_listed)
        };
        // Released only now; and before its caller continues, and a shutdown finds that nothing is owed.
        drop(lock);
        self.client.owed.remove(self, is_listed);
        if matches!(self.end, End::Record { .. }) {
            self.report_in(OwedPhase::Stored { in_time: false }, LOCK_ENDED);
        }
        if is_listed && matches!(phase, OwedPhase::Stored { .. }) {
            let ((kind, name), after) = (self.key(), self.client.now());
            let after = after.saturating_duration_since(self.since);
            crate::log::info!(%kind, %name, ?after, "an end is stored after all");
        }
        self.ended.notify_waiters();
        true
    }
}

impl ListedEnd for OwedEnd {
    fn key(&self) -> (OwedKind, &Arc<str>) {
        match &self.end {
            End::Record { name, .. } => (OwedKind::Record, name),
            #[cfg(feature = "scheduler")]
            End::Run { job, .. } => (OwedKind::Run, job),
        }
    }

    fn bytes(&self) -> usize {
        match &self.end {
            End::Record { name, record, .. } => name.len() + record.payload.len(),
            #[cfg(feature = "scheduler")]
            End::Run { job, .. } => job.len(),
        }
    }

    fn describe(&self) -> Option<Owed> {
        let is_listed = self.state().is_listed;
        let (kind, name) = self.key();
        let age = self.client.now().saturating_duration_since(self.since);
        let is_protected = self.is_protected();
        is_listed.then(|| Owed { kind, name: Arc::clone(name), age, is_protected })
    }

    fn record(&self) -> Option<(Arc<Record>, Duration)> {
        let remaining = self.until.saturating_duration_since(self.client.now());
        match &self.end {
            End::Record { record, .. } if !remaining.is_zero() => {
                Some((Arc::clone(record), remaining))
            }
            _ => None,
        }
    }

    fn give_up(&self, why: &str) {
        if self.finish(OwedPhase::GivenUp) {
            self.report_in(OwedPhase::GivenUp, why);
        }
    }

    fn cancel(&self) {
        self.finish(OwedPhase::GivenUp);
    }
}

impl Obligation for OwedEnd {
    fn op(self: Arc<Self>, node: usize, now: Timestamp) -> Option<Op> {
        let mut state = self.state();
        let is_owed = state.phase == OwedPhase::Owed;
        let node = &mut state.nodes[node];
        // Each node is sent it once, also after a quorum has stored it.
        if std::mem::replace(&mut node.is_sent, true) && !is_owed {
            return None;
        }
        match &self.end {
            End::Record { lease, name, record } => {
                let retain = self.until.saturating_duration_since(now);
                let (name, record) = (Arc::clone(name), Arc::clone(record));
                // A node that lost the lock's key, or is in probation, stores that the work is done
                // nevertheless.
                let is_refused = matches!(
                    node.answer,
                    Err(Reason::KeyGone | Reason::Probation { .. } | Reason::WrongTag { .. })
                );
                node.is_repair = record.is_done && (is_refused || !lease.is_valid());
                if node.is_repair {
                    return Some(Op::Repair(RepairOp { name, record, retain }));
                }
                lease.is_valid().then(|| {
                    Op::Record(RecordOp {
                        lease: Arc::clone(lease.id()),
                        record,
                        retain,
                        until: lease.valid_until(),
                        max_delay: lease.max_delay(),
                    })
                })
            }
            #[cfg(feature = "scheduler")]
            End::Run { job, claim } => Some(Op::Claim(ClaimOp {
                job: Arc::clone(job),
                claim: Arc::clone(claim),
                max_delay: self.client.node_timeout() * 2,
            })),
        }
    }

    fn answered(&self, node: usize, answer: Result<Answer, Reason>) -> bool {
        let is_gone = answer == Err(Reason::KeyGone);
        let (is_acknowledged, stored, under_lock, refused) = {
            let mut state = self.state();
            state.nodes[node].answer = answer;
            let count = |of: &dyn Fn(&NodeAnswer) -> bool| {
                state.nodes.iter().filter(|node| of(node)).count()
            };
            let under_lock = count(&|node| node.is_stored() && !node.is_repair);
            let refused = count(&|node| node.answer == Err(Reason::Superseded));
            (state.nodes[node].is_stored(), count(&NodeAnswer::is_stored), under_lock, refused)
        };
        let (nodes, quorum) = (self.client.nodes.len(), formulas::quorum(self.client.nodes.len()));
        if stored >= quorum {
            let in_time = under_lock >= quorum || self.is_protected();
            self.finish(OwedPhase::Stored { in_time });
        } else if refused > nodes - quorum {
            if self.finish(OwedPhase::GivenUp) {
                self.log_refused();
            }
        } else if is_gone && let End::Record { lease, .. } = &self.end {
            // Stores the lock's key again on nodes that lost it.
            lease.extend();
        }
        is_acknowledged
    }

    fn dropped(&self) {
        self.give_up("too many ends wait for a node");
    }

    fn subject(&self) -> String {
        let (kind, name) = self.key();
        format!("{kind} {name}")
    }
}

impl fmt::Debug for OwedEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, name) = self.key();
        f.debug_struct("OwedEnd").field("kind", &kind).field("name", name).finish_non_exhaustive()
    }
}
