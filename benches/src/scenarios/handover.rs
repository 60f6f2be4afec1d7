//! From the release in one process to the grant in another one that waits.

use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

use super::contended::KINDS;
use crate::{
    child::{Part, Turn, run_all},
    options::Options,
    report::format::time,
    samples::tell,
    servers::Servers,
    spread::rank,
};

/// Long enough that the other one waits when it ends.
const HOLD: Duration = Duration::from_millis(10);

/// How late what far servers say is: many times what it takes to wake a thread.
const DISTANCE: Duration = Duration::from_millis(2);

/// Where the servers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Here,
    /// Each behind a proxy that delays what it says.
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
        let trip = round_trip(&servers.urls()[0]);
        let part = Part { kind, tasks: 1, names: 1, hold: HOLD, time: options.time };
        let turns = run_all(servers, part, 2);
        let mut latencies = latencies(&turns[0], &turns[1]);
        latencies.extend(self::latencies(&turns[1], &turns[0]));
        latencies.sort_by(f64::total_cmp);
        let who = kind.name();
        tell(&case, who, TRIP, trip);
        tell(&case, who, COUNT, latencies.iter().map(|_| 1.0).sum());
        if latencies.is_empty() {
            return eprintln!("  {case}, {who}: none");
        }
        let [median, p90, p99] = [50, 90, 99].map(|percent| rank(&latencies, percent));
        eprintln!("  {case}, {who}: {}, round trip {}", time(median), time(trip));
        tell(&case, who, MEDIAN, median);
        tell(&case, who, P90, p90);
        tell(&case, who, P99, p99);
        tell(&case, who, TO_TRIP, median / trip);
    });
}

/// Of the grants in `to` that came after a release in `from`, with nothing in between; in seconds.
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

/// Of a command over a connection of the redis crate, from a task, at the median; in seconds.
fn round_trip(url: &str) -> f64 {
    let mut trips = Runtime::new().expect("the system gives threads").block_on(async {
        let client = redis::Client::open(url).expect("a valid URL");
        let mut node = client.get_multiplexed_async_connection().await.expect("it is up");
        let mut trips = Vec::new();
        for _ in 0..100 {
            // As rarely as hand-overs are, so that threads sleep in between.
            tokio::time::sleep(HOLD).await;
            let sent = Instant::now();
            let () = redis::cmd("PING").query_async(&mut node).await.expect("it is up");
            trips.push(sent.elapsed().as_secs_f64());
        }
        trips
    });
    trips.sort_by(f64::total_cmp);
    rank(&trips, 50)
}
