//! A whole scheduler under one leadership.

use std::{future::pending, sync::Arc, time::Duration};

use super::{
    super::{
        StartError,
        shared::{Phase, SchedulerShared},
        wall_timer::LOOK_INTERVAL,
    },
    leader_jobs,
};
use crate::{
    error::LockError,
    leader::{Leader, Term},
    lock::Redlock,
    resource::ResourceError,
};

/// The candidate of a [`Scheduler`](crate::Scheduler::leader_only) on this replica: a [`Leader`] of
/// the scheduler's manager, or the name of one with the default options.
#[derive(Clone, Debug)]
pub struct Candidate(CandidateKind);

#[derive(Clone, Debug)]
enum CandidateKind {
    Name(String),
    Leader(Box<Leader>),
}

impl From<Leader> for Candidate {
    fn from(leader: Leader) -> Self {
        Self(CandidateKind::Leader(Box::new(leader)))
    }
}

impl From<String> for Candidate {
    fn from(name: String) -> Self {
        Self(CandidateKind::Name(name))
    }
}

impl From<&str> for Candidate {
    fn from(name: &str) -> Self {
        Self(CandidateKind::Name(name.into()))
    }
}

/// Default limit for the time between two runs of the scheduler's tasks.
const HEARTBEAT_WITHIN: Duration = Duration::from_secs(30);
/// Heartbeats within the limit.
const HEARTBEATS_PER_LIMIT: u32 = 4;

impl Candidate {
    pub(in super::super) fn check(self, redlock: &Redlock) -> Result<Leader, StartError> {
        let leader = match self.0 {
            CandidateKind::Name(name) => redlock.leader(name),
            CandidateKind::Leader(leader) => *leader,
        };
        let name = Arc::clone(leader.name());
        if name.is_empty() {
            return Err(StartError::InvalidLeader { name, error: ResourceError::EmptyName });
        }
        if !leader.is_of(redlock) {
            return Err(StartError::ForeignLeader { name });
        }
        match leader.check() {
            Ok(()) => Ok(leader),
            Err(LockError::InvalidResource(error)) => {
                Err(StartError::InvalidLeader { name, error })
            }
            Err(LockError::InvalidRequest(reason)) => {
                Err(StartError::LeaderOptions { name, reason })
            }
            Err(error) => Err(StartError::LeaderOptions { name, reason: error.to_string().into() }),
        }
    }
}

/// Campaigns and leads until the scheduler has ended. Gives up the leadership after the last run;
/// blocking work that can't be stopped keeps its own lock.
pub(in super::super) async fn lead(leader: Leader, shared: Arc<SchedulerShared>) {
    let ended = || {
        let (shared, mut control) = (Arc::clone(&shared), shared.control.subscribe());
        async move {
            tokio::select! {
                biased;
                () = shared.ended() => {}
                _ = control.wait_for(|control| control.phase == Phase::Left) => {}
            }
        }
    };
    let (leader, limit) = leader.heartbeat_or(HEARTBEAT_WITHIN);
    let led = leader.run(|term| {
        let (leads, ended) = (LeadGuard::begin(&shared), ended());
        let (leader, shared) = (leader.clone(), Arc::clone(&shared));
        let token = term.fencing_token();
        let beats = send_heartbeats(term, Arc::clone(&shared), limit);
        async move {
            tokio::select! {
                biased;
                () = ended => {}
                () = beats => {}
                () = leader_jobs::publish(&shared.redlock, &shared.roster, &leader, token) => {}
            }
            drop(leads);
        }
    });
    tokio::select! {
        biased;
        result = led => match result {
            Ok(None) if shared.is_running() => crate::log::warn!(
                leader = %leader.name(),
                "the scheduler's leader was stopped: this replica runs no more jobs"
            ),
            Ok(_) => {}
            Err(error) => crate::log::warn!(
                leader = %leader.name(), %error,
                "the scheduler campaigns no more: this replica runs no more jobs"
            ),
        },
        () = ended() => {}
    }
}

/// Sends heartbeats while the scheduler is polled: this task, and the wall timer's.
async fn send_heartbeats(term: Term, shared: Arc<SchedulerShared>, limit: Duration) {
    // No limit.
    if limit == Duration::MAX {
        pending::<()>().await;
    }
    loop {
        let since = shared.redlock.now().saturating_duration_since(shared.wall_timer.looked());
        if since <= LOOK_INTERVAL + limit / 2 {
            term.heartbeat();
        }
        shared.redlock.sleep(limit / HEARTBEATS_PER_LIMIT).await;
    }
}

/// Lets jobs run until it is dropped.
struct LeadGuard(Arc<SchedulerShared>);

impl LeadGuard {
    fn begin(shared: &Arc<SchedulerShared>) -> Self {
        shared.control.send_modify(|control| {
            debug_assert!(!control.leads, "a term begins after the one before");
            control.leads = true;
        });
        Self(Arc::clone(shared))
    }
}

impl Drop for LeadGuard {
    fn drop(&mut self) {
        self.0.control.send_modify(|control| control.leads = false);
    }
}
