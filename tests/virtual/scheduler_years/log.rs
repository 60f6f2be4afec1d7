//! The runs, with their machines and times.

use std::sync::{Arc, Mutex};

use tower_redlock::{JobContext, testing::ManualClock, time::Clock};

use crate::scheduler_years::plan::{EPOCH, Ms};

#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) job: usize,
    pub(crate) machine: usize,
    pub(crate) version: usize,
    /// For a run on demand, when it began.
    pub(crate) tick: Ms,
    pub(crate) is_on_demand: bool,
    pub(crate) attempt: u32,
    pub(crate) token: u64,
    pub(crate) began: Ms,
    /// When it ended, or was dropped.
    pub(crate) ended: Option<Ms>,
    pub(crate) finished: bool,
}

#[derive(Clone)]
pub(crate) struct Log {
    runs: Arc<Mutex<Vec<Run>>>,
    clock: ManualClock,
}

/// Records the end of a run, also if it is dropped.
pub(crate) struct RunGuard {
    log: Log,
    run: usize,
}

impl Log {
    pub(crate) fn new(clock: &ManualClock) -> Self {
        Self { runs: Arc::default(), clock: clock.clone() }
    }

    /// The true time.
    pub(crate) fn now(&self) -> Ms {
        u64::try_from(self.clock.wall().as_millis()).unwrap() - EPOCH
    }

    pub(crate) fn begin(
        &self,
        job: usize,
        machine: usize,
        version: usize,
        cx: &JobContext,
    ) -> RunGuard {
        let began = self.now();
        let mut runs = self.runs.lock().unwrap();
        runs.push(Run {
            job,
            machine,
            version,
            // Before the year where a clock was behind it.
            tick: cx.tick().as_millis().saturating_sub(EPOCH),
            is_on_demand: cx.is_triggered(),
            attempt: cx.attempt(),
            token: cx.fencing_token().get(),
            began,
            ended: None,
            finished: false,
        });
        RunGuard { log: self.clone(), run: runs.len() - 1 }
    }

    pub(crate) fn runs(&self) -> Vec<Run> {
        self.runs.lock().unwrap().clone()
    }

    /// Number of jobs that began a run since a moment.
    pub(crate) fn jobs_since(&self, since: Ms) -> usize {
        let runs = self.runs.lock().unwrap();
        let since = runs.iter().rev().take_while(|run| run.began >= since);
        since.fold(0_u8, |jobs, run| jobs | 1 << run.job).count_ones() as usize
    }

    pub(crate) fn is_any_going(&self) -> bool {
        // A run that hangs behind others would be an overlap of a job's runs.
        self.runs.lock().unwrap().iter().rev().take(8).any(|run| run.ended.is_none())
    }
}

impl RunGuard {
    pub(crate) fn finished(self) {
        self.log.runs.lock().unwrap()[self.run].finished = true;
    }
}

impl Drop for RunGuard {
    fn drop(&mut self) {
        let now = self.log.now();
        self.log.runs.lock().unwrap()[self.run].ended = Some(now);
    }
}
