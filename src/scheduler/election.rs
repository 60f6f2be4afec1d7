//! A whole scheduler under one leadership.

use std::{future::pending, sync::Arc, time::Duration};

use super::{
    StartError,
    alarms::LOOK_INTERVAL,
    jobs::{Phase, Shared},
};
use crate::{
    error::LockError,
    leader::{Leader, Term},
    lock::Redlock,
    resource::ResourceError,
};

/// Who leads a [`Scheduler`](super::Scheduler::leader_only) on this replica: a [`Leader`] of the
/// scheduler's manager, or the name of one with the default options.
#[derive(Clone, Debug)]
pub struct Candidate(Of);

#[derive(Clone, Debug)]
enum Of {
    Name(String),
    Leader(Box<Leader>),
}

impl From<Leader> for Candidate {
    fn from(leader: Leader) -> Self {
        Self(Of::Leader(Box::new(leader)))
    }
}

impl From<String> for Candidate {
    fn from(name: String) -> Self {
        Self(Of::Name(name))
    }
}

impl From<&str> for Candidate {
    fn from(name: &str) -> Self {
        Self(Of::Name(name.into()))
    }
}

/// Time within which the scheduler's tasks have to run, unless the candidate has a limit of its own.
const HEARTBEAT_WITHIN: Duration = Duration::from_secs(30);
/// Heartbeats within the limit.
const BEATS: u32 = 4;

impl Candidate {
    pub(super) fn check(self, redlock: &Redlock) -> Result<Leader, StartError> {
        let leader = match self.0 {
            Of::Name(name) => redlock.leader(name),
            Of::Leader(leader) => *leader,
        };
        let name = Arc::clone(leader.name());
        if name.is_empty() {
            return Err(StartError::InvalidLeader { name, error: ResourceError::EmptyName });
        }
        if !leader.is_of(redlock.core()) {
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

/// Campaigns and leads until the scheduler has come to its end. Leadership is given up after the
/// last run has ended; work that blocks and can't be stopped is left to its own lock.
pub(super) async fn lead(leader: Leader, shared: Arc<Shared>) {
    let ended = || {
        let (mut alive, mut control) = (shared.alive.subscribe(), shared.control.subscribe());
        async move {
            tokio::select! {
                biased;
                _ = alive.wait_for(|jobs| *jobs == 0) => {}
                _ = control.wait_for(|control| control.phase == Phase::Left) => {}
            }
        }
    };
    let (leader, limit) = leader.heartbeat_or(HEARTBEAT_WITHIN);
    let led = leader.run(|term| {
        let (leads, ended) = (Leads::begin(&shared), ended());
        let beats = beat(term, Arc::clone(&shared), limit);
        async move {
            tokio::select! {
                biased;
                () = ended => {}
                () = beats => {}
            }
            drop(leads);
        }
    });
    tokio::select! {
        biased;
        result = led => match result {
            Ok(None) if shared.control().phase == Phase::Running => crate::log::warn!(
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

/// Tells the lock's watch that the scheduler is polled: this task, and the one that wakes the jobs.
async fn beat(term: Term, shared: Arc<Shared>, limit: Duration) {
    // No limit.
    if limit == Duration::MAX {
        pending::<()>().await;
    }
    loop {
        let since = shared.core().clock().now().saturating_duration_since(shared.alarms.looked());
        if since <= LOOK_INTERVAL + limit / 2 {
            term.heartbeat();
        }
        shared.sleep(limit / BEATS).await;
    }
}

/// Jobs may run as long as it is there.
struct Leads(Arc<Shared>);

impl Leads {
    fn begin(shared: &Arc<Shared>) -> Self {
        shared.control.send_modify(|control| control.leads = true);
        Self(Arc::clone(shared))
    }
}

impl Drop for Leads {
    fn drop(&mut self) {
        self.0.control.send_modify(|control| control.leads = false);
    }
}
