use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{runtime::Runtime, task::JoinSet};

use crate::{
    contestants::{Contestant, Kind},
    options::Options,
    servers::Servers,
};

/// How many tasks take locks, each one its own again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Load {
    Sequence,
    Tasks,
}

impl Load {
    pub(crate) const ALL: [Self; 2] = [Self::Sequence, Self::Tasks];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sequence => "one task",
            Self::Tasks => "64 tasks",
        }
    }

    fn tasks(self) -> usize {
        match self {
            Self::Sequence => 1,
            Self::Tasks => 64,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Condition {
    Healthy,
    /// One server of five stops (SIGSTOP) when the measurement begins.
    Frozen,
}

impl Condition {
    pub(crate) const ALL: [Self; 2] = [Self::Healthy, Self::Frozen];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Healthy => "all servers well",
            Self::Frozen => "one server frozen",
        }
    }
}

/// What was done in the time of one measurement.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    cycles: u32,
    pub(crate) failures: u32,
    pub(crate) first_failure: Option<String>,
    elapsed: Duration,
}

impl Outcome {
    /// Cycles per second.
    pub(crate) fn rate(&self) -> f64 {
        f64::from(self.cycles) / self.elapsed.as_secs_f64()
    }

    fn add(&mut self, other: Self) {
        self.cycles += other.cycles;
        self.failures += other.failures;
        self.first_failure = self.first_failure.take().or(other.first_failure);
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cycles in {:.2?}, {:.0} per s", self.cycles, self.elapsed, self.rate())?;
        match &self.first_failure {
            None => Ok(()),
            Some(error) => write!(f, ", {} FAILED, the first: {error}", self.failures),
        }
    }
}

/// Connections, caches and the processor's clock come up to speed.
const WARM_UP: Duration = Duration::from_millis(200);

/// One contestant under one load, with a runtime and connections of its own.
pub(crate) fn measure(
    servers: &Servers,
    kind: Kind,
    load: Load,
    condition: Condition,
    options: &Options,
) -> Outcome {
    let runtime = Runtime::new().expect("the system gives threads");
    let outcome = runtime.block_on(async {
        let contestant = Arc::new(Contestant::connect(kind, servers.urls(), options).await);
        let warm_up = run(&contestant, load, WARM_UP).await;
        let frozen = (condition == Condition::Frozen).then(|| servers.freeze_one());
        let mut outcome = run(&contestant, load, options.time).await;
        outcome.failures += warm_up.failures;
        outcome.first_failure = warm_up.first_failure.or(outcome.first_failure);
        drop(frozen);
        contestant.close().await;
        outcome
    });
    drop(runtime);
    servers.settle();
    outcome
}

async fn run(contestant: &Arc<Contestant>, load: Load, time: Duration) -> Outcome {
    let mut tasks = JoinSet::new();
    let started = Instant::now();
    for task in 0..load.tasks() {
        let contestant = Arc::clone(contestant);
        tasks.spawn(async move {
            let name = format!("bench:{task}");
            let mut outcome = Outcome::default();
            while started.elapsed() < time {
                match contestant.cycle(&name).await {
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
    while let Some(outcome) = tasks.join_next().await {
        total.add(outcome.expect("no task panics"));
    }
    // A cycle that was begun is finished: where one takes a second, this is later than asked.
    total.elapsed = started.elapsed();
    total
}
