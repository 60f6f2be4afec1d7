//! Locks over servers at a distance, as multiples of the round trip to the third-fastest of five.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use redis::{IntoConnectionInfo, aio::MultiplexedConnection, io::tcp::TcpSettings};
use tokio::{runtime::Runtime, task::JoinSet};

use crate::{
    contestants::{Contestant, Kind, Waiting},
    cycles::{FAILURES, WARM_UP},
    options::{Options, rotated},
    report::format::time,
    samples::emit,
    servers::Servers,
    spread::rank,
};

/// Number of tasks and their pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// One task that repeats cycles.
    One,
    /// One task that begins a cycle at an interval, after the servers have done all work: as a handler
    /// that is called now and then.
    NowAndThen,
    /// Tasks that begin a cycle at an interval, so the processor is not always busy.
    Paced,
    /// The same tasks without pauses.
    Full,
}

impl Load {
    pub(crate) const ALL: [Self; 4] = [Self::One, Self::NowAndThen, Self::Paced, Self::Full];

    const fn tasks(self) -> u32 {
        match self {
            Self::One | Self::NowAndThen => 1,
            Self::Paced | Self::Full => 64,
        }
    }

    fn name(self) -> String {
        let tasks = super::tasks(self.tasks() as usize);
        match self {
            Self::One | Self::Full => tasks,
            Self::NowAndThen | Self::Paced => {
                format!("{tasks}, a cycle every {} ms each", self.interval().as_millis())
            }
        }
    }

    /// Returns the interval of each task; zero if it does not pause.
    const fn interval(self) -> Duration {
        match self {
            Self::One | Self::Full => Duration::ZERO,
            Self::NowAndThen => Duration::from_millis(5),
            // All tasks together have 2,000 cycles a second.
            Self::Paced => Duration::from_millis(32),
        }
    }

    /// Returns whether the case is measured: without pauses, the rate depends at shorter distances on the
    /// processor only; with a distance, one task is the same with pauses and without.
    fn is_measured(self, far: Far) -> bool {
        match self {
            Self::One | Self::Paced => true,
            Self::NowAndThen => far == Far::HERE,
            Self::Full => far == Far::ALL_ALIKE || far == Far::FARTHEST,
        }
    }
}

/// The measured client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Lock(Kind),
    /// A client that waits for three of five answers to a `PING`: the third-fastest server.
    Third,
}

impl Who {
    pub(crate) const ALL: [Self; 4] =
        [Self::Lock(Kind::Ours), Self::Lock(Kind::Rslock), Self::Lock(Kind::Floor), Self::Third];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Lock(kind) => kind.name(),
            Self::Third => "third of five answers to PING",
        }
    }
}

/// The distance of the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Far {
    micros: u64,
    is_one_slow: bool,
}

impl Far {
    pub(crate) const ALL: [Self; 5] =
        [Self::HERE, Self::of(500), Self::ALL_ALIKE, Self::ONE_SLOW, Self::FARTHEST];
    pub(crate) const HERE: Self = Self::of(0);
    /// All servers at the same distance, which are compared with each other.
    pub(crate) const ALL_ALIKE: Self = Self::of(2_000);
    pub(crate) const ONE_SLOW: Self = Self { micros: 2_000, is_one_slow: true };
    const FARTHEST: Self = Self::of(10_000);
    const TIMES_SLOWER: u32 = 10;

    const fn of(micros: u64) -> Self {
        Self { micros, is_one_slow: false }
    }

    pub(crate) const fn is_away(self) -> bool {
        self.micros > 0
    }

    const fn round_trip(self) -> Duration {
        Duration::from_micros(self.micros)
    }

    pub(crate) fn case(self, load: Load) -> String {
        let trip = match self.micros {
            0 => "servers on this machine".into(),
            _ => format!("round trip {}", time(self.round_trip().as_secs_f64())),
        };
        let slow = if self.is_one_slow { ", one server 10 times slower" } else { "" };
        format!("{}, {trip}{slow}", load.name())
    }
}

/// The reported quantities, by the names that the report uses. Times are in seconds.
pub(crate) const P50: &str = "p50 of an acquire";
pub(crate) const P99: &str = "p99 of an acquire";
pub(crate) const CYCLE_P50: &str = "p50 of a cycle";
pub(crate) const CYCLE_P99: &str = "p99 of a cycle";
pub(crate) const RATE: &str = "cycles a second";
/// The configured round trip, from which the forwarder derives the delays.
pub(crate) const NOMINAL: &str = "set round trip";
pub(crate) const LATE_P50: &str = "p50 of the forwarder's lateness";
pub(crate) const LATE_P99: &str = "p99 of the forwarder's lateness";

pub(crate) fn measure(_: &Servers, options: &Options) {
    let servers = Servers::start_distant();
    for round in 0..options.rounds {
        for far in Far::ALL {
            servers.set_distance(
                far.round_trip(),
                if far.is_one_slow { Far::TIMES_SLOWER } else { 1 },
            );
            for load in Load::ALL.into_iter().filter(|load| load.is_measured(far)) {
                for who in rotated(&Who::ALL, round) {
                    let outcome = measure_one(&servers, who, load, options.time);
                    outcome.emit(&far.case(load), who, far.round_trip());
                }
            }
        }
    }
}

#[derive(Debug, Default)]
struct Outcome {
    /// Duration of each acquire, in seconds, sorted.
    acquires: Vec<f64>,
    cycles: Vec<f64>,
    /// Number of cycles that failed, whose times are not recorded.
    failures: u32,
    first_failure: Option<String>,
    elapsed: Duration,
    /// Delays of the forwarders, sorted.
    lateness: Vec<f64>,
}

impl Outcome {
    fn emit(&self, case: &str, who: Who, round_trip: Duration) {
        let who = who.name();
        let emit = |what, value| emit(case, who, what, value);
        emit(FAILURES, f64::from(self.failures));
        if let Some(error) = &self.first_failure {
            eprintln!("  {case}, {who}: {} FAILED, the first: {error}", self.failures);
        }
        if self.cycles.is_empty() {
            return;
        }
        let [p50, p99] = [50, 99].map(|percent| rank(&self.acquires, percent));
        eprintln!("  {case}, {who}: acquire {} at p50, {} at p99", time(p50), time(p99));
        emit(P50, p50);
        emit(P99, p99);
        emit(CYCLE_P50, rank(&self.cycles, 50));
        emit(CYCLE_P99, rank(&self.cycles, 99));
        let count = u32::try_from(self.cycles.len()).expect("some millions");
        emit(RATE, f64::from(count) / self.elapsed.as_secs_f64());
        if !round_trip.is_zero() {
            emit(NOMINAL, round_trip.as_secs_f64());
            emit(LATE_P50, rank(&self.lateness, 50));
            emit(LATE_P99, rank(&self.lateness, 99));
        }
    }
}

/// The client whose time is measured.
#[derive(Debug)]
enum Subject {
    Lock(Contestant),
    Third(Vec<MultiplexedConnection>),
}

fn measure_one(servers: &Servers, who: Who, load: Load, time: Duration) -> Outcome {
    let runtime = Runtime::new().expect("the system gives threads");
    let mut outcome = runtime.block_on(async {
        let subject = Arc::new(match who {
            Who::Lock(kind) => Subject::Lock(
                Contestant::connect(kind, servers.urls(), servers.alive(), Waiting::None).await,
            ),
            Who::Third => Subject::Third(connect(servers.urls()).await),
        });
        run(&subject, load, WARM_UP).await;
        servers.take_lateness();
        let mut outcome = run(&subject, load, time).await;
        outcome.lateness = servers.take_lateness();
        if let Subject::Lock(contestant) = &*subject {
            contestant.close().await;
        }
        outcome
    });
    drop(runtime);
    servers.settle();
    for times in [&mut outcome.acquires, &mut outcome.cycles, &mut outcome.lateness] {
        times.sort_by(f64::total_cmp);
    }
    outcome
}

pub(super) async fn connect(urls: Vec<String>) -> Vec<MultiplexedConnection> {
    let mut connections = Vec::new();
    for url in urls {
        // By default, a command waits for the answer to an earlier one (Nagle's algorithm).
        let at_once = TcpSettings::default().set_nodelay(true);
        let info = url.into_connection_info().expect("a valid URL").set_tcp_settings(at_once);
        let client = redis::Client::open(info).expect("a valid URL");
        connections.push(client.get_multiplexed_async_connection().await.expect("it is up"));
    }
    connections
}

async fn run(subject: &Arc<Subject>, load: Load, time: Duration) -> Outcome {
    let mut running = JoinSet::new();
    let started = Instant::now();
    for task in 0..load.tasks() {
        let subject = Arc::clone(subject);
        running.spawn(async move {
            let name = format!("distance:{task}");
            let mut outcome = Outcome::default();
            // The starts of the tasks are distributed over the interval.
            let interval = load.interval();
            let mut due = started + interval * task / load.tasks();
            while started.elapsed() < time {
                if !interval.is_zero() {
                    tokio::time::sleep_until(due.into()).await;
                    due = Instant::now().max(due + interval);
                }
                let begun = Instant::now();
                match cycle(&subject, &name).await {
                    Ok(acquired) => {
                        outcome.acquires.push(acquired.duration_since(begun).as_secs_f64());
                        outcome.cycles.push(begun.elapsed().as_secs_f64());
                    }
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
        let outcome = outcome.expect("no task panics");
        total.acquires.extend(outcome.acquires);
        total.cycles.extend(outcome.cycles);
        total.failures += outcome.failures;
        total.first_failure = total.first_failure.or(outcome.first_failure);
    }
    total.elapsed = started.elapsed();
    total
}

/// Acquires and releases. Returns the time at which the lock was acquired.
async fn cycle(subject: &Subject, name: &str) -> Result<Instant, String> {
    match subject {
        Subject::Lock(contestant) => {
            let held = contestant.acquire(name).await?;
            let acquired = Instant::now();
            contestant.give_back(name, held).await?;
            Ok(acquired)
        }
        Subject::Third(connections) => {
            third(connections).await;
            Ok(Instant::now())
        }
    }
}

/// Waits for three of five answers.
pub(super) async fn third(connections: &[MultiplexedConnection]) {
    let pings: FuturesUnordered<_> = connections
        .iter()
        .map(async |connection| {
            let () =
                redis::cmd("PING").query_async(&mut connection.clone()).await.expect("it is up");
        })
        .collect();
    pings.take(3).collect::<()>().await;
}
