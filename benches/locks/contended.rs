//! Many tasks of one process that want the same name, again and again.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use rslock::LockManager;
use tokio::{runtime::Runtime, task::JoinSet};
use tower_redlock::{NodeHealth, Redlock};

use crate::{
    options::Options,
    servers::Servers,
    spread::{Spread, significant, time},
};

const TASKS: [usize; 2] = [16, 256];
const NAME: &str = "bench:contended";
const TTL: Duration = Duration::from_secs(10);
/// Nobody waits so long.
const WAIT: Duration = Duration::from_secs(600);
/// A set of servers is not new any more.
const AGED: Duration = Duration::from_secs(65);
const WARM_UP: Duration = Duration::from_millis(200);

#[derive(Clone, Debug)]
enum Contestant {
    Ours(Redlock),
    Rslock(LockManager),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Ours,
    Rslock,
}

impl Kind {
    const ALL: [Self; 2] = [Self::Ours, Self::Rslock];

    fn name(self) -> &'static str {
        match self {
            Self::Ours => "tower-redlock",
            Self::Rslock => "rslock 0.10",
        }
    }
}

impl Contestant {
    async fn connect(kind: Kind, urls: Vec<String>, options: &Options) -> Self {
        match kind {
            Kind::Ours => {
                let mut builder = Redlock::builder().nodes(urls);
                if let Some(limit) = options.handoff_limit {
                    builder = builder.handoff_limit(limit);
                }
                let redlock = builder.build().expect("valid settings");
                while !redlock.health().iter().all(NodeHealth::is_voting) {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                Self::Ours(redlock)
            }
            Kind::Rslock => Self::Rslock(LockManager::new(urls)),
        }
    }

    /// Waits for the lock, for as long as it takes, and gives it back; how long that was.
    async fn cycle(&self) -> Duration {
        let began = Instant::now();
        match self {
            Self::Ours(redlock) => {
                let lock = redlock.lock(NAME).wait(WAIT).await.expect("nobody keeps it");
                let waited = began.elapsed();
                drop(lock);
                waited
            }
            Self::Rslock(manager) => {
                let lock = manager.acquire_no_guard(NAME, TTL).await.expect("nobody keeps it");
                let waited = began.elapsed();
                manager.unlock(&lock).await;
                waited
            }
        }
    }
}

/// All waits of one measurement.
#[derive(Clone, Debug)]
struct Waits {
    all: Vec<Duration>,
    /// Grants within the time of the measurement; the last wait of each task ends after it.
    grants: u32,
    time: Duration,
    /// Grants to the task that had the fewest, and to the one that had the most.
    least: u32,
    most: u32,
}

impl Waits {
    fn rate(&self) -> f64 {
        f64::from(self.grants) / self.time.as_secs_f64()
    }

    fn mean(&self) -> f64 {
        let total: Duration = self.all.iter().sum();
        let count = u32::try_from(self.all.len()).expect("a few millions");
        total.as_secs_f64() / f64::from(count)
    }

    fn p99(&self) -> f64 {
        self.all[(self.all.len() * 99).div_ceil(100) - 1].as_secs_f64()
    }
}

impl fmt::Display for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.0} grants per s, wait {} at the mean, {} at p99; {} to {} grants a task",
            self.rate(),
            time(self.mean()),
            time(self.p99()),
            self.least,
            self.most
        )
    }
}

fn measure(servers: &Servers, kind: Kind, tasks: usize, options: &Options) -> Waits {
    let runtime = Runtime::new().expect("the system gives threads");
    let waits = runtime.block_on(async {
        let contestant = Arc::new(Contestant::connect(kind, servers.urls(), options).await);
        run(&contestant, tasks, WARM_UP).await;
        let waits = run(&contestant, tasks, options.time).await;
        if let Contestant::Ours(redlock) = &*contestant {
            redlock.shutdown().await;
        }
        waits
    });
    drop(runtime);
    // The servers keep what they know of us: a set that is new has little room for tokens at first.
    servers.all_gone();
    waits
}

async fn run(contestant: &Arc<Contestant>, tasks: usize, time: Duration) -> Waits {
    let mut running = JoinSet::new();
    let started = Instant::now();
    for _ in 0..tasks {
        let contestant = Arc::clone(contestant);
        running.spawn(async move {
            let (mut waits, mut grants) = (Vec::new(), 0);
            while started.elapsed() < time {
                waits.push(contestant.cycle().await);
                grants += u32::from(started.elapsed() < time);
            }
            (waits, grants)
        });
    }
    let mut total = Waits { all: Vec::new(), grants: 0, time, least: u32::MAX, most: 0 };
    while let Some(ended) = running.join_next().await {
        let (waits, grants) = ended.expect("no task panics");
        total.least = total.least.min(grants);
        total.most = total.most.max(grants);
        total.grants += grants;
        total.all.extend(waits);
    }
    total.all.sort_unstable();
    total
}

/// Measures, and prints Markdown.
pub(crate) fn report(servers: &Servers, options: &Options) {
    // Until the first connection is a while ago: as servers are that have been up for more than that.
    let runtime = Runtime::new().expect("the system gives threads");
    runtime.block_on(async {
        let _ours = Contestant::connect(Kind::Ours, servers.urls(), options).await;
        tokio::time::sleep(AGED).await;
    });
    println!(
        "| one name, one process | | grants per second | wait: mean | wait: p99 | p99 to mean | grants to rslock's |"
    );
    println!("|---|---|--:|--:|--:|--:|--:|");
    for tasks in TASKS {
        let mut waits = Kind::ALL.map(|_| Vec::new());
        for round in 0..options.rounds {
            for turn in 0..Kind::ALL.len() {
                let which = (turn + round) % Kind::ALL.len();
                let kind = Kind::ALL[which];
                let one = measure(servers, kind, tasks, options);
                eprintln!("  {tasks} tasks, {}: {one}", kind.name());
                waits[which].push(one);
            }
        }
        let values = |which: usize, value: fn(&Waits) -> f64| -> Vec<f64> {
            waits[which].iter().map(value).collect()
        };
        for (which, kind) in Kind::ALL.into_iter().enumerate() {
            let median = |value| Spread::of(values(which, value)).median;
            let (mean, p99) = (values(which, Waits::mean), values(which, Waits::p99));
            let rates = |which| values(which, Waits::rate);
            println!(
                "| {tasks} tasks | {} | {} | {} | {} | × {} | × {} |",
                kind.name(),
                significant(median(Waits::rate)),
                time(Spread::of(mean.clone()).median),
                time(Spread::of(p99.clone()).median),
                significant(Spread::of_ratios(&p99, &mean).median),
                significant(Spread::of_ratios(&rates(which), &rates(1)).median),
            );
        }
    }
}
