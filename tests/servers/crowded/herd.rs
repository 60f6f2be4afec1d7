//! Hundreds of clients when a probation ends and records are copied, and the resulting load on the
//! healthy servers.

use std::{
    pin::Pin,
    time::{Duration, Instant},
};

use tower_redlock::{Redlock, lock::Spawner, node::NodeHealth};

use crate::fixture::{
    HANG_GUARD, RedisServer, Resp, eventually_async,
    guard::{guarded, hash, meta, quick, tag},
    urls,
};

const CLIENTS: usize = 200;
const JOBS: usize = 10_000;
const RECORDS: usize = 5_000;
/// Maximum average time of a command, during which the server answers no other client.
const MAX_PAUSE: Duration = Duration::from_millis(500);

/// Claims and promises of the maximum number of jobs, and records.
fn fill(server: &RedisServer) {
    let fill = "for i = 1, ARGV[1] do \
                  local times = string.rep(' 1700000000000', 8) \
                  redis.call('HSET', 'redlock:marks', 'promise:job ' .. i, 1700000000000000 + i, \
                    'claim:job ' .. i, (1700000000000000 + i) .. times .. ' host-1:4711') \
                end \
                for i = 1, ARGV[2] do \
                  redis.call('SET', 'redlock:done:' .. i, 'd' .. string.rep('x', 100), 'PX', 600000) \
                end return redis.status_reply('OK')";
    let answer = server.cli(&["EVAL", fill, "0", &JOBS.to_string(), &RECORDS.to_string()]);
    assert_eq!(answer, Resp::Simple("OK".into()));
}

/// The longest average time of a call of one command, with that command.
fn slowest_command(server: &RedisServer) -> (Duration, String) {
    let stats = server.cli(&["INFO", "commandstats"]).text();
    let of_line = |line: &str| {
        let (command, stat) = line.strip_prefix("cmdstat_")?.split_once(':')?;
        let average = stat.split(',').find_map(|part| part.strip_prefix("usec_per_call="))?;
        let micros: f64 = average.parse().expect("a number");
        Some((Duration::from_secs_f64(micros / 1e6), command.to_owned()))
    };
    stats.lines().filter_map(of_line).max().expect("the clients sent commands")
}

/// Runs all clients on one runtime.
#[derive(Debug)]
struct SharedSpawner(tokio::runtime::Handle);

impl Spawner for SharedSpawner {
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.0.spawn(task);
    }
}

async fn all_of_them_vote(clients: &[Redlock]) {
    let started = Instant::now();
    while !clients.iter().all(|client| client.health().iter().all(NodeHealth::is_voting)) {
        assert!(started.elapsed() < 6 * HANG_GUARD, "{:?}", clients[0].health());
        // Pause between checks, longer than that of `eventually_async` to leave the clients the CPU.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_client_copies_for_all() {
    let mut servers = RedisServer::start_n(3);
    let clients: Vec<Redlock> = (0..CLIENTS)
        .map(|_| {
            let settings = quick().node_timeout(Duration::from_secs(1));
            let spawner = SharedSpawner(tokio::runtime::Handle::current());
            guarded(settings, urls(&servers)).spawner(spawner).build().unwrap()
        })
        .collect();
    all_of_them_vote(&clients).await;
    for server in [&servers[0], &servers[2]] {
        fill(server);
        server.cli(&["CONFIG", "RESETSTAT"]);
    }
    let before = tag(&servers[1]);
    servers[1].restart();
    let what = format!("the probation of the server begins, after {before}");
    eventually_async(&what, async || tag(&servers[1]).starts_with("p ")).await;
    all_of_them_vote(&clients).await;
    let started = Instant::now();
    while meta(&servers[1]).get("once").is_none_or(|once| !once.is_empty()) {
        assert!(started.elapsed() < 6 * HANG_GUARD, "{:?}", clients[0].health()[1]);
        // Pause between queries, so that they do not load the server.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(hash(&servers[1], "redlock:marks").len(), 2 * JOBS);
    assert_eq!(servers[1].keys("redlock:done:*").len(), RECORDS);
    for server in [&servers[0], &servers[2]] {
        let calls = ["hgetall", "hscan", "scan", "get"]
            .map(|command| usize::try_from(server.calls(command)).expect("few calls"));
        println!("HGETALL, HSCAN, SCAN, GET: {calls:?}");
        // One pass, and another one if a slow client was replaced.
        let most = [1, (2 * JOBS).div_ceil(250), RECORDS.div_ceil(250), RECORDS / 2];
        assert!(calls.iter().zip(most).all(|(calls, most)| *calls <= 2 * most + 2), "{calls:?}");
        let (slowest, command) = slowest_command(server);
        println!("slowest command: {command}, {slowest:?}");
        assert!(slowest < MAX_PAUSE, "{command} takes {slowest:?}");
    }
}
