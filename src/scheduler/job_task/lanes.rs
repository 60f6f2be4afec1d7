//! The runs of a parallel job on this replica: how many may begin, and which are in progress.

use std::{sync::Arc, time::SystemTime};

use tokio::sync::Semaphore;

use super::super::fleet::{JobRun, JobRuns};
use crate::sync::Mutex;

/// The runs of a parallel job on this replica.
pub(super) struct Lanes {
    pub(super) count: u32,
    /// A permit for each run, from before its claim until its slot is released.
    pub(super) places: Arc<Semaphore>,
    runs: Mutex<LaneRuns>,
}

#[derive(Default)]
struct LaneRuns {
    /// Runs that are in the history, as far as it could be stored, and whose ends are not.
    open: Vec<JobRun>,
    /// Ended runs that too few nodes stored.
    unstored: Vec<JobRun>,
    /// Who may hold each slot, as read under the job's lock last; `None` if that is not known.
    owners: Option<Vec<Vec<Arc<str>>>>,
}

impl Lanes {
    pub(super) fn new(count: u32) -> Self {
        let permits = usize::try_from(count).unwrap_or(Semaphore::MAX_PERMITS);
        Self { count, places: Arc::new(Semaphore::new(permits)), runs: Mutex::default() }
    }

    /// Waits until no run is left.
    pub(super) async fn idle(&self) {
        // It is never closed.
        let _ = self.places.acquire_many(self.count).await;
    }

    /// Whether a run of this tick is in progress here.
    pub(super) fn has(&self, tick: SystemTime) -> bool {
        crate::sync::lock(&self.runs).open.iter().any(|open| open.tick == tick)
    }

    /// Records who may hold each slot, as read under the job's lock.
    pub(super) fn note_owners(&self, owners: Option<Vec<Vec<Arc<str>>>>) {
        crate::sync::lock(&self.runs).owners = owners;
    }

    /// Whether a run of the history that has not ended is in progress. `owner`: of this replica.
    pub(super) fn is_alive(&self, run: &JobRun, owner: &Arc<str>) -> bool {
        let runs = crate::sync::lock(&self.runs);
        // What is not known is not reported.
        let Some(owners) = &runs.owners else { return true };
        let held = owners.iter().filter(|owners| owners.contains(&run.owner)).count();
        if run.owner != *owner {
            return held > 0;
        }
        // With further slots, of which one is for the next run, another scheduler has the same name.
        runs.open.iter().any(|open| open.is_same(run)) || held > runs.open.len() + 1
    }

    pub(super) fn open(self: &Arc<Self>, run: &JobRun) -> OpenRun {
        crate::sync::lock(&self.runs).open.push(run.clone());
        OpenRun { lanes: Arc::clone(self), run: run.clone() }
    }

    pub(super) fn keep_unstored(&self, run: JobRun) {
        let mut runs = crate::sync::lock(&self.runs);
        if runs.unstored.len() == JobRuns::MAX {
            runs.unstored.remove(0);
        }
        runs.unstored.push(run);
    }

    pub(super) fn take_unstored(&self) -> Vec<JobRun> {
        std::mem::take(&mut crate::sync::lock(&self.runs).unstored)
    }
}

/// A run of this replica that is in progress until this is dropped.
pub(super) struct OpenRun {
    lanes: Arc<Lanes>,
    run: JobRun,
}

impl Drop for OpenRun {
    fn drop(&mut self) {
        crate::sync::lock(&self.lanes.runs).open.retain(|open| !open.is_same(&self.run));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::protocol::TickRun;

    fn run(tick: u64, owner: &str) -> JobRun {
        let at = Duration::from_secs(tick);
        JobRun::of_tick(&TickRun::new(at, 1, at), owner.into())
    }

    fn lanes(owners: Option<&[&[&str]]>) -> Arc<Lanes> {
        let lanes = Arc::new(Lanes::new(4));
        let slot = |slot: &&[&str]| slot.iter().map(|owner| Arc::from(*owner)).collect();
        lanes.note_owners(owners.map(|owners| owners.iter().map(slot).collect()));
        lanes
    }

    #[test]
    fn run_elsewhere_lives_while_its_owner_has_a_slot() {
        let me = "me".into();
        let lanes = lanes(Some(&[&[], &["a", "b"], &["a"]]));

        assert!(lanes.is_alive(&run(1, "a"), &me) && lanes.is_alive(&run(1, "b"), &me));
        assert!(!lanes.is_alive(&run(1, "c"), &me));
    }

    #[test]
    fn nothing_is_interrupted_while_slots_are_unknown() {
        let me = "me".into();

        assert!(lanes(None).is_alive(&run(1, "a"), &me));
        assert!(lanes(None).is_alive(&run(1, "me"), &me));
    }

    #[test]
    fn own_run_lives_until_its_end() {
        let me = "me".into();
        let lanes = lanes(Some(&[&["me"], &["me"]]));

        let open = lanes.open(&run(1, "me"));

        assert!(lanes.is_alive(&run(1, "me"), &me));
        assert!(!lanes.is_alive(&run(2, "me"), &me), "a former process had this name");
        drop(open);
        assert!(lanes.is_alive(&run(1, "me"), &me), "another scheduler has this name");
        lanes.note_owners(Some(vec![vec!["me".into()]]));
        assert!(!lanes.is_alive(&run(1, "me"), &me));
    }
}
