use std::{collections::HashMap, sync::Arc};

use crate::{
    error::Reason,
    node::{Answer, Op, TickClaim},
};

/// The claims of jobs' ticks that an embedded node keeps.
#[derive(Debug, Default)]
pub(super) struct Jobs(HashMap<Arc<str>, Kept>);

#[derive(Debug, Default)]
struct Kept {
    promised: u64,
    claim: Option<TickClaim>,
}

impl Jobs {
    pub(super) fn prepare(&mut self, job: &Arc<str>, token: u64) -> Result<Answer, Reason> {
        let kept = self.promise(job, token)?;
        // Such a node never lost what it knew and went on.
        Ok(Answer::Promised { floor: 0, claim: kept.claim.clone().map(Box::new) })
    }

    pub(super) fn claim(&mut self, job: &Arc<str>, claim: &TickClaim) -> Result<Answer, Reason> {
        self.promise(job, claim.token)?.claim = Some(claim.clone());
        Ok(Answer::Claimed)
    }

    pub(super) fn claims(&self, jobs: &[Arc<str>]) -> Answer {
        let claim = |job| self.0.get(job).and_then(|kept: &Kept| kept.claim.clone());
        Answer::Claims { floor: 0, claims: jobs.iter().map(claim).collect() }
    }

    fn promise(&mut self, job: &Arc<str>, token: u64) -> Result<&mut Kept, Reason> {
        if !self.0.contains_key(job) && self.0.len() >= Op::MAX_JOBS {
            return Err(Reason::TooManyJobs);
        }
        let kept = self.0.entry(Arc::clone(job)).or_default();
        if kept.promised > token {
            return Err(Reason::Superseded);
        }
        kept.promised = token;
        Ok(kept)
    }
}
