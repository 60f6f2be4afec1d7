//! Locks over servers at a distance, as multiples of what any client waits for a majority of five.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use redis::aio::MultiplexedConnection;
use tokio::{runtime::Runtime, task::JoinSet};

use crate::{
    contestants::{Contestant, Kind, Patience},
    cycles::WARM_UP,
    options::Options,
    report::format::time,
    samples::tell,
    servers::Servers,
    spread::rank,
};

pub(crate) const TASKS: [usize; 2] = [1, 64];

/// Who is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Lock(Kind),
    /// Waits for three of five answers to a `PING`: the third-fastest server.
    Third,
}

impl Who {
    pub(crate) const ALL: [Self; 5] = [
        Self::Lock(Kind::Ours),
        Self::Lock(Kind::Awaited),
        Self::Lock(Kind::Rslock),
        Self::Lock(Kind::Floor),
        Self::Third,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Lock(kind) => kind.name(),
            Self::Third => "third of five answers to PING",
        }
    }
}

/// How far away the servers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Far {
    micros: u64,
    /// The last server is ten times as far.
    is_one_slow: bool,
}

impl Far {
    pub(crate) const ALL: [Self; 5] = [
        Self { micros: 0, is_one_slow: false },
        Self { micros: 500, is_one_slow: false },
        Self { micros: 2_000, is_one_slow: false },
        Self { micros: 2_000, is_one_slow: true },
        Self { micros: 10_000, is_one_slow: false },
    ];

    pub(crate) const fn is_away(self) -> bool {
        self.micros > 0
    }

    const fn round_trip(self) -> Duration {
        Duration::from_micros(self.micros)
    }

    pub(crate) fn case(self, tasks: usize) -> String {
        let tasks = super::tasks(tasks);
        let slow = if self.is_one_slow { ", one server 10 times as far" } else { "" };
        match self.micros {
            0 => format!("{tasks}, servers on this machine"),
            micros => format!(
                "{tasks}, round trip {}{slow}",
                time(Duration::from_micros(micros).as_secs_f64())
            ),
        }
    }
}

/// The reported quantities, by the names that the report uses.
pub(crate) const P50: &str = "p50 of an acquire";
pub(crate) const P99: &str = "p99 of an acquire";
pub(crate) const CYCLE_P50: &str = "p50 of a cycle";
pub(crate) const CYCLE_P99: &str = "p99 of a cycle";
pub(crate) const RATE: &str = "cycles a second";

pub(crate) fn measure(_: &Servers, options: &Options) {
    let servers = Servers::start_distant();
    for round in 0..options.rounds {
        for far in Far::ALL {
            servers.set_distance(far.round_trip(), if far.is_one_slow { 10 } else { 1 });
            for tasks in TASKS {
                let case = far.case(tasks);
                for who in crate::options::rotated(&Who::ALL, round) {
                    let times = measure_one(&servers, who, tasks, options.time);
                    times.tell(&case, who, options.time);
                }
            }
        }
    }
}

/// How long each acquire, and each cycle, took; in seconds.
#[derive(Debug, Default)]
struct Times {
    acquires: Vec<f64>,
    cycles: Vec<f64>,
}

impl Times {
    fn tell(mut self, case: &str, who: Who, time_of_all: Duration) {
        let count = u32::try_from(self.cycles.len()).expect("some millions");
        for all in [&mut self.acquires, &mut self.cycles] {
            all.sort_by(f64::total_cmp);
        }
        let [p50, p99] = [50, 99].map(|percent| rank(&self.acquires, percent));
        eprintln!("  {case}, {}: acquire {} at p50, {} at p99", who.name(), time(p50), time(p99));
        tell(case, who.name(), P50, p50);
        tell(case, who.name(), P99, p99);
        tell(case, who.name(), CYCLE_P50, rank(&self.cycles, 50));
        tell(case, who.name(), CYCLE_P99, rank(&self.cycles, 99));
        tell(case, who.name(), RATE, f64::from(count) / time_of_all.as_secs_f64());
    }
}

/// Whose time is measured.
#[derive(Debug)]
enum Subject {
    Lock(Contestant),
    Third(Vec<MultiplexedConnection>),
}

fn measure_one(servers: &Servers, who: Who, tasks: usize, time: Duration) -> Times {
    let runtime = Runtime::new().expect("the system gives threads");
    let times = runtime.block_on(async {
        let subject = Arc::new(match who {
            Who::Lock(kind) => Subject::Lock(
                Contestant::connect(kind, servers.urls(), servers.alive(), Patience::None).await,
            ),
            Who::Third => Subject::Third(connect(servers.urls()).await),
        });
        run(&subject, tasks, WARM_UP).await;
        let times = run(&subject, tasks, time).await;
        if let Subject::Lock(contestant) = &*subject {
            contestant.close().await;
        }
        times
    });
    drop(runtime);
    servers.settle();
    times
}

async fn connect(urls: Vec<String>) -> Vec<MultiplexedConnection> {
    let mut connections = Vec::new();
    for url in urls {
        let client = redis::Client::open(url).expect("a valid URL");
        connections.push(client.get_multiplexed_async_connection().await.expect("it is up"));
    }
    connections
}

async fn run(subject: &Arc<Subject>, tasks: usize, time: Duration) -> Times {
    let mut running = JoinSet::new();
    let started = Instant::now();
    for task in 0..tasks {
        let subject = Arc::clone(subject);
        running.spawn(async move {
            let (mut times, name) = (Times::default(), format!("distance:{task}"));
            while started.elapsed() < time {
                let begun = Instant::now();
                match &*subject {
                    Subject::Lock(contestant) => {
                        let held = contestant.acquire(&name).await.expect("nobody else wants it");
                        times.acquires.push(begun.elapsed().as_secs_f64());
                        contestant.give_back(&name, held).await.expect("the servers are up");
                    }
                    Subject::Third(connections) => {
                        third(connections).await;
                        times.acquires.push(begun.elapsed().as_secs_f64());
                    }
                }
                times.cycles.push(begun.elapsed().as_secs_f64());
            }
            times
        });
    }
    let mut total = Times::default();
    while let Some(times) = running.join_next().await {
        let Times { acquires, cycles } = times.expect("no task panics");
        total.acquires.extend(acquires);
        total.cycles.extend(cycles);
    }
    total
}

/// Waits for three of five answers.
async fn third(connections: &[MultiplexedConnection]) {
    let pings: FuturesUnordered<_> = connections
        .iter()
        .map(async |connection| {
            let () =
                redis::cmd("PING").query_async(&mut connection.clone()).await.expect("it is up");
        })
        .collect();
    pings.take(3).collect::<()>().await;
}
