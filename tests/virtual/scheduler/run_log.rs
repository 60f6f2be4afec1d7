//! A log of runs: the job, the replica and the times of each.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tower_redlock::{JobContext, schedule::WallTime, testing::ManualClock, time::Clock};

/// The runs of all replicas, in the order of their starts.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<Entry>>>);

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) host: &'static str,
    pub(crate) job: String,
    pub(crate) tick: WallTime,
    pub(crate) attempt: u32,
    pub(crate) token: u64,
    pub(crate) lateness: Duration,
    /// By the clock of the replica, since the epoch.
    pub(crate) began: Duration,
    /// The time at which the run ended or was dropped.
    pub(crate) ended: Option<Duration>,
    pub(crate) finished: bool,
}

/// Records the end of a run, also if it is dropped.
pub(crate) struct RunGuard {
    log: Log,
    entry: usize,
    clock: ManualClock,
}

impl Log {
    pub(crate) fn begin(
        &self,
        host: &'static str,
        cx: &JobContext,
        clock: &ManualClock,
    ) -> RunGuard {
        let mut entries = self.0.lock().unwrap();
        entries.push(Entry {
            host,
            job: cx.job().into(),
            tick: cx.tick(),
            attempt: cx.attempt(),
            token: cx.fencing_token().get(),
            lateness: cx.lateness(),
            began: clock.wall(),
            ended: None,
            finished: false,
        });
        RunGuard { log: self.clone(), entry: entries.len() - 1, clock: clock.clone() }
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.0.lock().unwrap().clone()
    }

    /// The ticks of the runs, in their order, in milliseconds after the clock's first moment.
    pub(crate) fn ticks(&self) -> Vec<u64> {
        self.entries().iter().map(|run| after_start(run.tick)).collect()
    }

    /// The attempts of the runs, in the same order.
    pub(crate) fn attempts(&self) -> Vec<u32> {
        self.entries().iter().map(|run| run.attempt).collect()
    }

    /// The replicas of the runs, in the same order.
    pub(crate) fn hosts(&self) -> Vec<&'static str> {
        self.entries().iter().map(|run| run.host).collect()
    }

    /// The maximum number of runs at a time.
    pub(crate) fn most_at_a_time(&self) -> usize {
        let changes = self.entries().into_iter().flat_map(|run| {
            let ended = run.ended.unwrap_or(Duration::MAX);
            // An end comes before a begin at the same time.
            [(run.began, 1), (ended, 0)]
        });
        let mut changes: Vec<_> = changes.collect();
        changes.sort_unstable();
        let (mut now, mut most) = (0_usize, 0);
        for (_, begins) in changes {
            now = if begins == 1 { now + 1 } else { now - 1 };
            most = most.max(now);
        }
        most
    }
}

impl RunGuard {
    pub(crate) fn finished(self) {
        self.log.0.lock().unwrap()[self.entry].finished = true;
    }
}

impl Drop for RunGuard {
    fn drop(&mut self) {
        self.log.0.lock().unwrap()[self.entry].ended = Some(self.clock.wall());
    }
}

/// In milliseconds after the clock's first moment.
pub(crate) fn after_start(tick: WallTime) -> u64 {
    tick.as_millis().saturating_sub(u64::try_from(ManualClock::new().wall().as_millis()).unwrap())
}
