//! Tasks that acquire and release a name each, again and again.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::contestants::Contestant;

/// What the tasks did together.
#[derive(Default)]
pub(crate) struct Outcome {
    cycles: u64,
    failures: u64,
    first_failure: Option<String>,
    acquires: Vec<Duration>,
    elapsed: Duration,
}

impl Outcome {
    fn add(&mut self, other: Self) {
        self.cycles += other.cycles;
        self.acquires.extend(&other.acquires);
        self.add_failures(other);
    }

    /// Adds the failures of a warm-up, so that none is hidden.
    pub(crate) fn add_failures(&mut self, other: Self) {
        self.failures += other.failures;
        self.first_failure = self.first_failure.take().or(other.first_failure);
    }

    /// The line that scripts/peers reads. Times of an acquire are those of the successful ones.
    pub(crate) fn json(mut self, contestant: &str, tasks: usize) -> Value {
        self.acquires.sort_unstable();
        json!({
            "contestant": contestant,
            "tasks": tasks,
            "cycles": self.cycles,
            "seconds": self.elapsed.as_secs_f64(),
            "failures": self.failures,
            "first_failure": self.first_failure,
            "p50_us": percentile(&self.acquires, 50),
            "p99_us": percentile(&self.acquires, 99),
        })
    }
}

/// Returns the nearest rank, in microseconds.
fn percentile(sorted: &[Duration], percent: usize) -> Option<f64> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.checked_sub(1)?).map(|time| time.as_secs_f64() * 1e6)
}

/// Runs this number of tasks until the time is over. Cycles in flight are completed.
pub(crate) async fn run(contestant: &Arc<Contestant>, tasks: usize, time: Duration) -> Outcome {
    let mut running = JoinSet::new();
    let started = Instant::now();
    for task in 0..tasks {
        let name = format!("peers:{}:{tasks}:{task}", std::process::id());
        running.spawn(repeat(Arc::clone(contestant), name, started + time));
    }
    let mut total = Outcome::default();
    while let Some(outcome) = running.join_next().await {
        total.add(outcome.expect("no task panics"));
    }
    total.elapsed = started.elapsed();
    total
}

async fn repeat(contestant: Arc<Contestant>, name: String, end: Instant) -> Outcome {
    let mut outcome = Outcome::default();
    while Instant::now() < end {
        let begun = Instant::now();
        let result = match contestant.acquire(&name).await {
            Ok(held) => {
                outcome.acquires.push(begun.elapsed());
                contestant.release(held).await
            }
            Err(error) => Err(error),
        };
        match result {
            Ok(()) => outcome.cycles += 1,
            Err(error) => {
                outcome.failures += 1;
                outcome.first_failure.get_or_insert(error);
            }
        }
    }
    outcome
}
