//! From the release in one process to the grant in another that waits.

use std::time::{Duration, Instant, SystemTime};

use crate::child::{self, Kind, Part, Turn};

/// Long enough that the other one waits when it ends.
const HOLD: Duration = Duration::from_millis(10);

pub(crate) fn measure(kind: Kind, urls: &[String], time: Duration, trip: Duration) -> String {
    let begin = SystemTime::now() + Duration::from_millis(700);
    let part = Part { kind, tasks: 1, hold: HOLD, begin, time };
    let children = [child::start(part, urls), child::start(part, urls)];
    let [a, b] = children.map(child::finish);
    let mut latencies = latencies(&a, &b);
    latencies.extend(self::latencies(&b, &a));
    latencies.sort_unstable();
    let rank = |percent: usize| latencies[(latencies.len() - 1) * percent / 100];
    format!(
        "| {}, {} hand-overs | {:.0?} | {:.0?} | {:.0?} | × {:.1} |",
        kind.name(),
        latencies.len(),
        rank(50),
        rank(90),
        rank(99),
        rank(50).as_secs_f64() / trip.as_secs_f64()
    )
}

/// Of the grants in `to` that came after a release in `from`, with nothing in between.
fn latencies(from: &[Turn], to: &[Turn]) -> Vec<Duration> {
    let before = |turn: &Turn| {
        let released = from.iter().map(|turn| turn.released).filter(|at| *at <= turn.granted).max();
        let own = to.iter().map(|turn| turn.released).filter(|at| *at <= turn.granted).max();
        released.filter(|at| own.is_none_or(|own| own < *at) && turn.asked < *at)
    };
    to.iter()
        .filter_map(|turn| before(turn).map(|at| Duration::from_nanos(turn.granted - at)))
        .collect()
}

/// Of a command over a connection of the redis crate, from a task, at the median.
pub(crate) fn round_trip(urls: &[String]) -> Duration {
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    let mut trips = runtime.block_on(async {
        let client = redis::Client::open(urls[0].as_str()).expect("a valid URL");
        let mut node = client.get_multiplexed_async_connection().await.expect("it is up");
        let mut trips = Vec::new();
        for _ in 0..200 {
            // As rarely as hand-overs are, so that threads sleep in between.
            tokio::time::sleep(Duration::from_millis(5)).await;
            let sent = Instant::now();
            let () = redis::cmd("PING").query_async(&mut node).await.expect("it is up");
            trips.push(sent.elapsed());
        }
        trips
    });
    trips.sort_unstable();
    trips[trips.len() / 2]
}
