//! Acquires and releases locks of one contestant, and prints a line of JSON for each case.
//!
//! `peers CONTESTANT SECONDS PORT…`: the ports are those of redis-server processes on 127.0.0.1.

mod contestants;
mod cycles;

use std::{sync::Arc, time::Duration};

use contestants::Contestant;

/// Time for connections and caches to warm up.
const WARM_UP: Duration = Duration::from_millis(200);

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kind, seconds, ports @ ..] = arguments.as_slice() else {
        panic!("usage: peers CONTESTANT SECONDS PORT…");
    };
    let time = Duration::from_secs_f64(seconds.parse().expect("the second argument is a number"));
    let urls = ports.iter().map(|port| format!("redis://127.0.0.1:{port}")).collect();
    let contestant = Arc::new(Contestant::connect(kind, urls).await);

    for tasks in [1, 64] {
        let warm_up = cycles::run(&contestant, tasks, WARM_UP).await;
        let mut outcome = cycles::run(&contestant, tasks, time).await;
        outcome.add_failures(warm_up);
        println!("{}", outcome.json(kind, tasks));
    }
    contestant.close().await;
}
