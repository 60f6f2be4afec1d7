//! Tasks that repeatedly acquire and release, each its own name.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{runtime::Runtime, task::JoinSet};

use crate::{
    contestants::{Contestant, Kind, Waiting},
    report::format::significant,
    samples::emit,
    servers::Servers,
    stopwatch::{Stopwatch, Used},
};

/// The reported quantities, by the names that the report uses.
pub(crate) const RATE: &str = "cycles per s";
pub(crate) const FAILURES: &str = "failed cycles";
/// In seconds of processor time per cycle, of all threads.
pub(crate) const CLIENT: &str = "client's processor time";
/// Like [`CLIENT`], of all servers together.
pub(crate) const SERVERS: &str = "servers' processor time";

/// Time for connections, caches and the processor's clock to warm up.
pub(crate) const WARM_UP: Duration = Duration::from_millis(200);

/// The results of one measurement.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) cycles: u32,
    failures: u32,
    first_failure: Option<String>,
    elapsed: Duration,
    used: Used,
}

impl Outcome {
    fn rate(&self) -> f64 {
        f64::from(self.cycles) / self.elapsed.as_secs_f64()
    }

    fn add(&mut self, other: Self) {
        self.cycles += other.cycles;
        self.failures += other.failures;
        self.first_failure = self.first_failure.take().or(other.first_failure);
    }

    pub(crate) fn emit(&self, case: &str, kind: Kind) {
        eprintln!("  {case}, {}: {self}", kind.name());
        emit(case, kind.name(), RATE, self.rate());
        emit(case, kind.name(), FAILURES, f64::from(self.failures));
        let cycles = f64::from(self.cycles);
        emit(case, kind.name(), CLIENT, self.used.client / cycles);
        if let Some(servers) = self.used.servers {
            emit(case, kind.name(), SERVERS, servers / cycles);
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cycles per s", significant(self.rate()))?;
        match &self.first_failure {
            None => Ok(()),
            Some(error) => write!(f, ", {} FAILED, the first: {error}", self.failures),
        }
    }
}

/// Measures one contestant, with its own runtime and connections. `disturb` is called when it is
/// warm, and its result is dropped at the end.
pub(crate) fn measure<D>(
    servers: &Servers,
    kind: Kind,
    tasks: usize,
    time: Duration,
    disturb: impl FnOnce() -> D,
) -> Outcome {
    let runtime = Runtime::new().expect("the system gives threads");
    let outcome = runtime.block_on(async {
        let connecting = Contestant::connect(kind, servers.urls(), servers.alive(), Waiting::None);
        let contestant = Arc::new(connecting.await);
        let warm_up = run(&contestant, kind, tasks, WARM_UP).await;
        let disturbed = disturb();
        let stopwatch = Stopwatch::start(servers);
        let mut outcome = run(&contestant, kind, tasks, time).await;
        outcome.used = stopwatch.stop(servers);
        outcome.failures += warm_up.failures;
        outcome.first_failure = warm_up.first_failure.or(outcome.first_failure);
        drop(disturbed);
        contestant.close().await;
        outcome
    });
    drop(runtime);
    servers.settle();
    outcome
}

pub(crate) async fn run(
    contestant: &Arc<Contestant>,
    kind: Kind,
    tasks: usize,
    time: Duration,
) -> Outcome {
    let mut running = JoinSet::new();
    let started = Instant::now();
    for task in 0..tasks {
        let contestant = Arc::clone(contestant);
        let name = format!("bench:{kind:?}:{task}");
        running.spawn(async move {
            let mut outcome = Outcome::default();
            while started.elapsed() < time {
                match cycle(&contestant, &name).await {
                    Ok(()) => outcome.cycles += 1,
                    Err(error) => {
                        outcome.failures += 1;
                        outcome.first_failure.get_or_insert(error);
                    }
                }
            }
            outcome
        });
    }
    let mut total = Outcome::default();
    while let Some(outcome) = running.join_next().await {
        total.add(outcome.expect("no task panics"));
    }
    // Started cycles are completed, so a cycle of a second ends later than planned.
    total.elapsed = started.elapsed();
    total
}

async fn cycle(contestant: &Contestant, name: &str) -> Result<(), String> {
    let held = contestant.acquire(name).await?;
    contestant.give_back(name, held).await
}
