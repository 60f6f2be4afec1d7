//! A whole scheduler under one leadership.

use std::sync::Arc;

use super::{
    StartError,
    jobs::{Phase, Shared},
};
use crate::{
    leader::Leader,
    lock::Redlock,
    resource::{Resource, ResourceError},
};

pub(super) fn candidate(redlock: &Redlock, name: &str) -> Result<Leader, StartError> {
    let invalid = |error| StartError::InvalidLeader { name: name.into(), error };
    if name.is_empty() {
        return Err(invalid(ResourceError::EmptyName));
    }
    Resource::try_from(format!("leader:{name}")).map_err(invalid)?;
    Ok(redlock.leader(name))
}

/// Campaigns and leads until the scheduler has come to its end. Leadership is given up after the
/// last run has ended; work that blocks and can't be stopped is left to its own lock.
pub(super) async fn lead(leader: Leader, shared: Arc<Shared>) {
    let ended = || {
        let (mut alive, mut control) = (shared.alive.subscribe(), shared.control.subscribe());
        async move {
            tokio::select! {
                _ = alive.wait_for(|jobs| *jobs == 0) => {}
                _ = control.wait_for(|control| control.phase == Phase::Left) => {}
            }
        }
    };
    let led = leader.run(|_| {
        let (leads, ended) = (Leads::begin(&shared), ended());
        async move {
            ended.await;
            drop(leads);
        }
    });
    tokio::select! {
        result = led => if let Err(error) = result {
            crate::log::warn!(%error, "the scheduler campaigns no more");
        },
        () = ended() => {}
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
