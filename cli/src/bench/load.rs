//! Tasks that acquire and release locks for a time.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

use futures_util::future::join_all;
use tokio::time::{Instant, timeout};
use tower_redlock::{LockError, Redlock};

use super::latencies::Latencies;

/// Pause of a task after an error.
const PAUSE: Duration = Duration::from_millis(50);

/// Tasks that work at the same time, each on a name of its own.
#[derive(Debug)]
pub(super) struct Load {
    tasks: usize,
    time: Duration,
    /// Limit for a cycle that is under way at the end.
    patience: Duration,
}

/// What the tasks measured.
#[derive(Clone, Debug, Default)]
pub(super) struct Phase {
    pub(super) tasks: usize,
    pub(super) elapsed: Duration,
    pub(super) latencies: Latencies,
    pub(super) errors: u64,
    /// The first of the errors.
    pub(super) error: Option<String>,
}

impl Load {
    pub(super) fn new(tasks: usize, time: Duration, patience: Duration) -> Self {
        Self { tasks, time, patience }
    }

    pub(super) async fn run(&self, redlock: &Redlock) -> Phase {
        let begun = Instant::now();
        let run = RandomState::new().hash_one(self.tasks);
        let tasks = (0..self.tasks).map(|task| {
            let name = format!("redlock-bench:{run:016x}:{task}");
            self.task(redlock, name, begun + self.time)
        });
        let mut phase = Phase { tasks: self.tasks, ..Phase::default() };
        for part in join_all(tasks).await {
            phase.latencies.add(&part.latencies);
            phase.errors += part.errors;
            phase.error = phase.error.or(part.error);
        }
        phase.elapsed = begun.elapsed();
        phase
    }

    async fn task(&self, redlock: &Redlock, name: String, end: Instant) -> Phase {
        let mut phase = Phase::default();
        while Instant::now() < end {
            let begun = Instant::now();
            let error = match timeout(self.time + self.patience, cycle(redlock, &name)).await {
                Ok(Ok(())) => {
                    phase.latencies.record(begun.elapsed());
                    continue;
                }
                Ok(Err(error)) => error.to_string(),
                Err(_) => "no answer".into(),
            };
            phase.errors += 1;
            phase.error.get_or_insert(error);
            tokio::time::sleep(PAUSE).await;
        }
        phase
    }
}

async fn cycle(redlock: &Redlock, name: &str) -> Result<(), LockError> {
    let lock = redlock.lock(name).auto_extend(false).await?;
    // Which nodes have deleted it does not matter here: the next acquire tells.
    let _ = lock.release().await;
    Ok(())
}
