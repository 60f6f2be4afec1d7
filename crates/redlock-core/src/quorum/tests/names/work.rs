//! Work that is done once (R13), and the tick of a job that is claimed once (R12), under the lock.
//!
//! Both take two rounds: the client asks what the servers keep, and has them keep something else.
//! Answers count only if their servers have equal views.

use std::{sync::Arc, time::Duration};

use super::{
    rule::RulePart,
    step::Violation,
    world::{NAMES, NamesWorld, PerName},
};
use crate::{
    protocol::{
        Nonce, Record, StoredLease, TickClaim, TickRun,
        views::{View, agree, largest_group},
    },
    quorum::{claims, records},
};

/// What clients do while they hold the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkKind {
    /// Work with a record.
    Once,
    /// The tick of a job.
    Tick,
}

/// Why a server lacks records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Lacks {
    /// It learnt from others after its probation.
    Learnt,
    /// It was bootstrapped together with others.
    Bootstrapped,
}

/// What a server keeps of the work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct StoredWork {
    /// The lease under which the work was done.
    pub(crate) record: Option<u16>,
    /// It lacks records, and does not say that there is none.
    pub(crate) lacks: Option<Lacks>,
    /// No claim with a smaller token is taken.
    pub(crate) promise: u16,
    /// The token of the claim of the tick.
    pub(crate) claim: Option<u16>,
    /// It was bootstrapped: the tick counts as started.
    pub(crate) assumed_run: bool,
}

impl StoredWork {
    /// Takes over what another server keeps of the tick.
    pub(crate) fn learn(&mut self, other: &Self) {
        self.promise = self.promise.max(other.promise).max(other.claim.unwrap_or(0));
        self.claim = self.claim.max(other.claim);
        self.assumed_run |= other.assumed_run;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum WorkPhase {
    /// Asks what is recorded; or for promises, and what is claimed.
    Asking,
    /// Has its record or its claim kept.
    Keeping,
}

/// What a client does under its lease.
#[derive(Clone, Debug)]
pub(crate) struct ClientWork {
    lease: u16,
    token: u16,
    pub(crate) phase: WorkPhase,
    targets: PerName<Option<usize>>,
    asked: PerName<bool>,
    pub(crate) told: PerName<Option<WorkAnswer>>,
}

/// What a server told.
#[derive(Clone, Debug)]
pub(crate) struct WorkAnswer {
    view: Arc<View>,
    kept: StoredWork,
}

impl ClientWork {
    /// A request to a server that restarted is not answered.
    pub(crate) fn lose(&mut self, node: usize, machine: usize) {
        self.targets[node].take_if(|target| *target == machine);
    }

    fn enter(&mut self, phase: WorkPhase, targets: PerName<Option<usize>>) {
        (self.phase, self.targets) = (phase, targets);
        (self.asked, self.told) = ([false; NAMES], std::array::from_fn(|_| None));
    }
}

impl NamesWorld {
    /// The client begins the work under the lock that it holds.
    pub(crate) fn begin_work(&mut self, client: usize) -> bool {
        if self.setup.work.is_none() || !self.holds(client) {
            return false;
        }
        let lease = self.leases[client].as_ref().expect("it is held");
        if self.jobs[client].as_ref().is_some_and(|job| job.lease == lease.id) {
            return false;
        }
        let mut job = ClientWork {
            lease: lease.id,
            token: lease.number,
            phase: WorkPhase::Asking,
            targets: [None; NAMES],
            asked: [false; NAMES],
            told: std::array::from_fn(|_| None),
        };
        job.enter(WorkPhase::Asking, self.drivers[client].conn);
        self.jobs[client] = Some(job);
        true
    }

    /// A server answers a request of the client's work.
    pub(crate) fn ask(&mut self, client: usize, node: usize) -> bool {
        let (Some(work), Some(job)) = (self.setup.work, &mut self.jobs[client]) else {
            return false;
        };
        let (lease, token, phase) = (job.lease, job.token, job.phase);
        let Some(machine) = job.targets[node] else { return false };
        if std::mem::replace(&mut job.asked[node], true) {
            return false;
        }
        if !self.holds(client) || self.leases[client].as_ref().map(|held| held.id) != Some(lease) {
            self.jobs[client] = None;
            return true;
        }
        let now = self.server_now(node, machine);
        if !self.is_enrolled(node, machine) || !self.server(node, machine).active {
            return true;
        }
        let abstains = self.has(RulePart::Copies);
        let server = self.server_mut(node, machine);
        let is_ours = server.lease(now) == Some(lease);
        let kept = &mut server.kept;
        let answers = match (work, phase) {
            (WorkKind::Once, WorkPhase::Asking) => {
                kept.record.is_some() || !(kept.lacks.is_some() && abstains)
            }
            (WorkKind::Once, WorkPhase::Keeping) => is_ours,
            (WorkKind::Tick, _) => kept.promise <= token,
        };
        if !answers {
            return true;
        }
        let told = *kept;
        match (work, phase) {
            (WorkKind::Once, WorkPhase::Asking) => {}
            (WorkKind::Once, WorkPhase::Keeping) => kept.record = kept.record.or(Some(lease)),
            (WorkKind::Tick, WorkPhase::Asking) => kept.promise = token,
            (WorkKind::Tick, WorkPhase::Keeping) => {
                (kept.promise, kept.claim) = (token, Some(token));
            }
        }
        let view = Arc::clone(server.view.as_ref().expect("it is enrolled"));
        let job = self.jobs[client].as_mut().expect("it is under way");
        job.told[node] = Some(WorkAnswer { view, kept: told });
        self.judge(client, work);
        true
    }

    /// What the servers kept that answered and count together.
    fn told(&self, job: &ClientWork) -> Vec<StoredWork> {
        let views = self.has(RulePart::ViewsOnWork);
        let told = || job.told.iter().flatten();
        let (_, view) = largest_group(told().map(|told| views.then_some(&told.view)));
        told().filter(|told| agree(view, Some(&told.view))).map(|told| told.kept).collect()
    }

    fn judge(&mut self, client: usize, work: WorkKind) {
        let job = self.jobs[client].as_ref().expect("it is under way");
        let (told, lease) = (self.told(job), job.lease);
        if told.len() < self.quorum() {
            return;
        }
        match job.phase {
            WorkPhase::Asking => {
                let is_free = match work {
                    WorkKind::Once => self.is_recorded(&told),
                    WorkKind::Tick => self.is_claimed(&told),
                };
                match is_free {
                    None => return,
                    Some(false) => return self.begin_keeping(client),
                    Some(true) => {}
                }
            }
            WorkPhase::Keeping => {
                if work == WorkKind::Tick && self.done.is_some() {
                    self.violation = Some(Violation::TickClaimedTwice);
                }
                self.done = Some(lease);
            }
        }
        let job = self.jobs[client].as_mut().expect("it is under way");
        job.targets = [None; NAMES];
    }

    /// The work was not done, by the answers. Work with a record begins here, a tick when it is
    /// claimed.
    fn begin_keeping(&mut self, client: usize) {
        if self.setup.work == Some(WorkKind::Once) && self.done.is_some() {
            self.violation = Some(Violation::WorkDoneTwice);
        }
        let targets = self.drivers[client].conn;
        let job = self.jobs[client].as_mut().expect("it is under way");
        job.enter(WorkPhase::Keeping, targets);
    }

    /// Where names change while servers copy, all that kept a record may be gone: it is lost once
    /// no voting server that a name leads to keeps it.
    pub(crate) fn note_lost_record(&mut self) {
        if !self.setup.changes_while_copying || self.done.is_none() {
            return;
        }
        let keeps = |node: usize, machine: usize| {
            let server = self.server(node, machine);
            server.active
                && self.is_enrolled(node, machine)
                && server.kept.record == self.done
                && self.leads.iter().any(|leads| leads[node] == machine)
        };
        let has_keeper =
            self.names().any(|node| (0..self.setup.machines).any(|machine| keeps(node, machine)));
        if !has_keeper {
            self.done = None;
        }
    }

    /// Returns whether the work is done, if that is known.
    fn is_recorded(&self, told: &[StoredWork]) -> Option<bool> {
        let left = Duration::from_secs(60);
        let record = |lease: u16| {
            let mut nonce = [0; 16];
            nonce[..2].copy_from_slice(&lease.to_be_bytes());
            let stored = StoredLease::new(Nonce::from_bytes(nonce), 1, left, "client".into());
            Arc::new(Record::new(true, stored, Arc::from([])))
        };
        let records: Vec<_> = told.iter().map(|kept| kept.record.map(record)).collect();
        let told = records.iter().map(|kept| kept.as_ref().map(|record| (record, left)));
        match records::status(told, self.setup.names) {
            records::RecordStatus::Done { .. } => Some(true),
            records::RecordStatus::Nothing => Some(false),
            records::RecordStatus::TooFew | records::RecordStatus::Unknown { .. } => None,
        }
    }

    /// Returns whether the tick counts as started, if that is known.
    fn is_claimed(&self, told: &[StoredWork]) -> Option<bool> {
        let run = TickRun::new(Duration::from_secs(1), 1, Duration::from_secs(1));
        let claim = |token: u16| TickClaim::new(token.into(), run, "client".into(), None);
        let claims: Vec<_> = told.iter().map(|kept| kept.claim.map(claim)).collect();
        if told.iter().any(|kept| kept.assumed_run) {
            return Some(true);
        }
        match claims::status(claims.iter().map(Option::as_ref), self.setup.names, &[]) {
            claims::ClaimStatus::Known(latest) => Some(latest.is_some()),
            claims::ClaimStatus::TooFew | claims::ClaimStatus::Likely(_) => None,
        }
    }
}
