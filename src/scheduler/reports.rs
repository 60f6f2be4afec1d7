//! What a job tells of what keeps it from running, and of what it lost by that.

use std::sync::Arc;

use super::{JobState, MissReason, driver::Driver};
use crate::{
    error::{LockError, Reason, VoteOutcome},
    schedule::WallTime,
};

/// Why too few nodes let a job run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CutOff {
    /// They don't answer, or have no vote.
    Nodes,
    /// They keep claims of as many jobs as they may.
    Full,
}

impl Driver {
    /// Too few nodes let the job run: told at the first time in a row. Returns the error's text.
    pub(super) fn note_unavailable(&mut self, error: &LockError) -> Arc<str> {
        let text: Arc<str> = error.to_string().into();
        let why = if is_full(error) { CutOff::Full } else { CutOff::Nodes };
        if self.is_cut_off != Some(why) {
            self.is_cut_off = Some(why);
            let job = &self.job.name;
            match why {
                CutOff::Nodes => crate::log::warn!(
                    %job,
                    %error,
                    "too few nodes answer for the job: it is tried again, and its ticks are missed if they start too late"
                ),
                CutOff::Full => crate::log::warn!(
                    %job,
                    %error,
                    "the job can't be scheduled: the nodes keep claims of as many jobs as they may"
                ),
            }
        }
        self.job.set_state(JobState::WaitingForNodes { error: Arc::clone(&text) });
        self.obstacle = Some(MissReason::Unavailable { error: Arc::clone(&text) });
        text
    }

    /// A quorum answered for the job.
    pub(super) fn note_available(&mut self) {
        if self.is_cut_off.take().is_some() {
            crate::log::info!(job = %self.job.name, "enough nodes answer for the job again");
        }
    }

    /// A quorum answered, as nodes that are full do too.
    pub(super) fn note_answered(&mut self) {
        if self.is_cut_off == Some(CutOff::Nodes) {
            self.note_available();
        }
    }

    /// A quorum says that somebody else has the job's lock.
    pub(super) fn note_held(&mut self, owner: Option<Arc<str>>) {
        self.note_answered();
        self.job.set_state(JobState::HeldBy { owner: owner.clone() });
        self.obstacle = Some(MissReason::Held { by: owner });
    }

    /// Logs ticks that are given up, and returns why they are.
    pub(super) fn report_missed(
        &mut self,
        count: u64,
        (first, last): (WallTime, WallTime),
    ) -> MissReason {
        let why = self.obstacle.clone().unwrap_or(MissReason::Late);
        let job = &self.job.name;
        if why == MissReason::Paused {
            crate::log::info!(%job, count, %first, %last, %why, "missed ticks of the job");
        } else {
            crate::log::warn!(%job, count, %first, %last, %why, "missed ticks of the job");
        }
        why
    }
}

fn is_full(error: &LockError) -> bool {
    let LockError::NoQuorum { votes } = error.root() else { return false };
    votes.iter().any(|vote| vote.outcome == VoteOutcome::NotCounted(Reason::TooManyJobs))
}
