//! Processes that want the same name: who gets it, how often, and how long after the release.
//!
//! `cargo bench -p tower-redlock-benches --bench processes [-- --seconds S]`; see
//! `benches/README.md`.

mod child;
mod contended;
mod handover;
#[path = "../../tests/support/mod.rs"]
mod support;

use std::time::Duration;

use child::Kind;
use support::RedisServer;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Some(orders) = std::env::var_os(child::VARIABLE) {
        return child::run(&orders.into_string().expect("our own orders"));
    }
    let seconds = args.iter().position(|arg| arg == "--seconds").map(|at| args[at + 1].parse());
    let time = Duration::from_secs(seconds.map_or(5, |seconds| seconds.expect("a number")));
    let servers = RedisServer::start_n(5);
    let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
    child::prepare(&urls);
    println!("## Hand-over between two processes\n");
    let trip = handover::round_trip(&urls);
    println!("A node's round trip: {trip:.0?} at the median.\n");
    println!("| | median | p90 | p99 | to the round trip |");
    println!("|---|--:|--:|--:|--:|");
    for kind in Kind::ALL {
        println!("{}", handover::measure(kind, &urls, time, trip));
    }
    for tasks in [1, 4] {
        println!("\n## {} processes with {tasks} tasks each, one name\n", contended::PROCESSES);
        println!(
            "| | grants per second | least to most served process | wait: mean | p50 | p99 | most |"
        );
        println!("|---|--:|--:|--:|--:|--:|--:|");
        for kind in Kind::ALL {
            println!("{}", contended::measure(kind, &urls, time, tasks));
        }
    }
}
