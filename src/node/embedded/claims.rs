//! The claims of jobs' ticks on an embedded node.

use std::{collections::BTreeMap, ops::Bound, sync::Arc};

use crate::{
    error::Reason,
    protocol::{Answer, ClaimsAnswer, ForgetJobOp, Op, PromisedAnswer, TickClaim},
};

/// The claims of jobs' ticks that an embedded node stores.
#[derive(Debug, Default)]
pub(super) struct EmbeddedClaims {
    kept: BTreeMap<Arc<str>, JobEntry>,
    /// The time at which the node lost its state, plus 60 s: see
    /// [`PromisedAnswer`](crate::protocol::PromisedAnswer).
    floor: u64,
}

#[derive(Clone, Debug, Default)]
struct JobEntry {
    promised: u64,
    claim: Option<TickClaim>,
}

impl EmbeddedClaims {
    pub(super) fn prepare(&mut self, job: &Arc<str>, token: u64) -> Result<Answer, Reason> {
        let floor = self.floor;
        let kept = self.promise(job, token)?;
        Ok(Answer::Promised(PromisedAnswer { floor, claim: kept.claim.clone().map(Box::new) }))
    }

    pub(super) fn claim(&mut self, job: &Arc<str>, claim: &TickClaim) -> Result<Answer, Reason> {
        let kept = self.promise(job, claim.token)?;
        if kept.claim.as_ref().is_some_and(|kept| kept.supersedes(claim)) {
            return Err(Reason::Superseded);
        }
        kept.claim = Some(claim.clone());
        Ok(Answer::Claimed)
    }

    pub(super) fn claims(&self, jobs: &[Arc<str>]) -> Answer {
        let claim = |job| self.kept.get(job).and_then(|kept: &JobEntry| kept.claim.clone());
        Answer::Claims(ClaimsAnswer { floor: self.floor, claims: jobs.iter().map(claim).collect() })
    }

    pub(super) fn forget(&mut self, op: &ForgetJobOp) -> Result<Answer, Reason> {
        if self.kept.get(&op.job).is_some_and(|kept| kept.promised > op.token) {
            return Err(Reason::Superseded);
        }
        let removed = op.registers().map(|name| self.kept.remove(&name).is_some());
        Ok(Answer::Forgotten(removed.contains(&true)))
    }

    /// Returns the names of jobs with a claim, in order, after the name `after`.
    pub(super) fn names(&self, after: Option<&Arc<str>>) -> impl Iterator<Item = &Arc<str>> {
        let after = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.kept
            .range::<Arc<str>, _>((after, Bound::Unbounded))
            .filter(|(_, kept)| kept.claim.is_some())
            .map(|(job, _)| job)
    }

    fn promise(&mut self, job: &Arc<str>, token: u64) -> Result<&mut JobEntry, Reason> {
        if !self.kept.contains_key(job) && self.kept.len() >= Op::MAX_REGISTERS {
            return Err(Reason::TooManyJobs);
        }
        let kept = self.kept.entry(Arc::clone(job)).or_default();
        if kept.promised > token {
            return Err(Reason::Superseded);
        }
        kept.promised = token;
        Ok(kept)
    }

    #[cfg(feature = "testing")]
    pub(super) fn above(floor: u64) -> Self {
        Self { floor, ..Self::default() }
    }

    #[cfg(feature = "testing")]
    pub(super) fn learn(&mut self, other: &Self) {
        self.floor = self.floor.max(other.floor);
        for (job, known) in &other.kept {
            let kept = self.kept.entry(Arc::clone(job)).or_default();
            kept.promised = kept.promised.max(known.promised);
            let order =
                |kept: &JobEntry| kept.claim.as_ref().map(|claim| (claim.token, claim.number));
            if order(known) > order(kept) {
                kept.claim.clone_from(&known.claim);
            }
        }
    }
}
