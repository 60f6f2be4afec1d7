//! The time from the release in one process to the grant in another one that waits.

use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

use super::distance::{connect, third};
use crate::{
    child::{Locks, Part, Turn, run_all},
    contestants::Kind,
    options::Options,
    report::format::time,
    samples::emit,
    servers::Servers,
    spread::rank,
};

pub(crate) const KINDS: [Kind; 3] = [Kind::Ours, Kind::OnRuntime, Kind::Rslock];

/// Long enough for the other process to wait when the hold ends.
const HOLD: Duration = Duration::from_millis(10);

/// Delay of the answers of distant servers: many times the time to wake a thread.
const DISTANCE: Duration = Duration::from_millis(2);

/// The location of the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Here,
    /// Each server is behind a proxy that delays its answers.
    Far,
}

impl Place {
    pub(crate) const ALL: [Self; 2] = [Self::Here, Self::Far];

    pub(crate) fn case(self) -> String {
        let far = if self == Self::Far { ", servers 2 ms away" } else { "" };
        format!("hand-over between two processes{far}")
    }
}

/// The reported quantities, by the names that the report uses.
pub(crate) const MEDIAN: &str = "median";
pub(crate) const P90: &str = "p90";
pub(crate) const P99: &str = "p99";
pub(crate) const TO_TRIP: &str = "median to a round trip";
pub(crate) const TRIP: &str = "round trip";
/// The time of two requests to all servers, one after the other, each until the third answer, as a
/// release and an acquire are, without scripts and without a second process.
pub(crate) const TWO_REQUESTS: &str = "two third answers";
pub(crate) const COUNT: &str = "hand-overs";

pub(crate) fn measure(servers: &Servers, options: &Options) {
    measure_at(Place::Here, servers, options);
    let far = Servers::start_proxied(5);
    far.slow(DISTANCE);
    measure_at(Place::Far, &far, options);
}

fn measure_at(place: Place, servers: &Servers, options: &Options) {
    let case = place.case();
    options.rounds(&KINDS, |kind| {
        let (trip, twice) = round_trips(servers.urls());
        let part = Part { kind, tasks: 1, locks: Locks::Names(1), hold: HOLD, time: options.time };
        let turns = run_all(servers, part, 2);
        let mut latencies = latencies(&turns[0], &turns[1]);
        latencies.extend(self::latencies(&turns[1], &turns[0]));
        latencies.sort_by(f64::total_cmp);
        let who = kind.name();
        emit(&case, who, TRIP, trip);
        emit(&case, who, TWO_REQUESTS, twice / trip);
        emit(&case, who, COUNT, latencies.iter().map(|_| 1.0).sum());
        if latencies.is_empty() {
            return eprintln!("  {case}, {who}: none");
        }
        let [median, p90, p99] = [50, 90, 99].map(|percent| rank(&latencies, percent));
        let [middle, trip_time, twice] = [median, trip, twice].map(time);
        eprintln!("  {case}, {who}: {middle}, round trip {trip_time}, two third answers {twice}");
        emit(&case, who, MEDIAN, median);
        emit(&case, who, P90, p90);
        emit(&case, who, P99, p99);
        emit(&case, who, TO_TRIP, median / trip);
    });
}

/// Returns the delays of the grants in `to` that directly followed a release in `from`, in seconds.
fn latencies(from: &[Turn], to: &[Turn]) -> Vec<f64> {
    let last = |turns: &[Turn], until: u64| {
        turns.iter().map(|turn| turn.released).filter(|at| *at <= until).max()
    };
    let before = |turn: &Turn| {
        let own = last(to, turn.granted);
        let released = last(from, turn.granted)?;
        (own.is_none_or(|own| own < released) && turn.asked < released).then_some(released)
    };
    to.iter()
        .filter_map(|turn| before(turn).map(|at| Duration::from_nanos(turn.granted - at)))
        .map(|latency| latency.as_secs_f64())
        .collect()
}

/// Returns the medians of a round trip of a command over a connection of the redis crate, from a
/// task, and of [`TWO_REQUESTS`], in seconds.
fn round_trips(urls: Vec<String>) -> (f64, f64) {
    let runtime = Runtime::new().expect("the system gives threads");
    let (mut trips, mut twice) = runtime.block_on(async {
        let nodes = connect(urls).await;
        let (mut trips, mut twice) = (Vec::new(), Vec::new());
        for _ in 0..100 {
            // As rare as hand-overs are, so that threads sleep in between.
            tokio::time::sleep(HOLD).await;
            let sent = Instant::now();
            let () = redis::cmd("PING").query_async(&mut nodes[0].clone()).await.expect("it is up");
            trips.push(sent.elapsed().as_secs_f64());
            tokio::time::sleep(HOLD).await;
            let sent = Instant::now();
            third(&nodes).await;
            third(&nodes).await;
            twice.push(sent.elapsed().as_secs_f64());
        }
        (trips, twice)
    });
    trips.sort_by(f64::total_cmp);
    twice.sort_by(f64::total_cmp);
    (rank(&trips, 50), rank(&twice, 50))
}
