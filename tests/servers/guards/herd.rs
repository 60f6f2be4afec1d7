//! Hundreds of clients when a probation ends and records are copied, and the resulting load on the
//! healthy servers.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use tower_redlock::{Redlock, lock::Spawner, node::NodeHealth};

use super::scene::{guarded, hash, meta, quick, tag, urls};
use crate::support::{HANG_GUARD, RedisServer, Resp, eventually_async};

const CLIENTS: usize = 200;
const JOBS: usize = 10_000;
const RECORDS: usize = 5_000;
/// Maximum time for which copying may keep a server from answering others.
const MAX_PAUSE: Duration = Duration::from_millis(50);

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

/// Measures round trips to one server until stopped.
struct Pings {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Duration>>,
}

impl Pings {
    fn start(addr: SocketAddr) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut stream = TcpStream::connect(addr).unwrap();
            stream.set_nodelay(true).unwrap();
            let mut trips = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                let sent = Instant::now();
                stream.write_all(b"PING\r\n").unwrap();
                stream.read_exact(&mut [0; 7]).unwrap();
                trips.push(sent.elapsed());
                // Interval between the measured round trips.
                thread::sleep(Duration::from_millis(1));
            }
            trips
        });
        Self { stop, thread }
    }

    /// The longest round trip, and the 99th percentile.
    fn end(self) -> (Duration, Duration) {
        self.stop.store(true, Ordering::Relaxed);
        let mut trips = self.thread.join().unwrap();
        trips.sort_unstable();
        (*trips.last().unwrap(), trips[trips.len() * 99 / 100])
    }
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
    let control = RedisServer::start();
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
    let pings = [&servers[0], &servers[2], &control].map(|server| Pings::start(server.addr()));
    all_of_them_vote(&clients).await;
    let started = Instant::now();
    while meta(&servers[1]).get("once").is_none_or(|once| !once.is_empty()) {
        assert!(started.elapsed() < 6 * HANG_GUARD, "{:?}", clients[0].health()[1]);
        // Pause between queries, so that they do not load the server.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let [first, second, quiet] = pings.map(Pings::end);

    println!(
        "longest PING, and 99th percentile: {first:?}, {second:?}; of a quiet server {quiet:?}"
    );

    assert_eq!(hash(&servers[1], "redlock:marks").len(), 2 * JOBS);
    assert_eq!(servers[1].keys("redlock:done:*").len(), RECORDS);

    for (server, common) in [(&servers[0], first.1), (&servers[2], second.1)] {
        let calls = ["hgetall", "hscan", "scan", "get"]
            .map(|command| usize::try_from(server.calls(command)).expect("few calls"));
        println!("HGETALL, HSCAN, SCAN, GET: {calls:?}");
        // One pass, and another one if a slow client was replaced.
        let most = [1, (2 * JOBS).div_ceil(250), RECORDS.div_ceil(250), RECORDS / 2];
        assert!(calls.iter().zip(most).all(|(calls, most)| *calls <= 2 * most + 2), "{calls:?}");
        let (slowest, command) = slowest_command(server);
        println!("slowest command: {command}, {slowest:?}");
        // Of single round trips, one may take long because the machine is loaded.
        assert!(common < quiet.1 + MAX_PAUSE, "{common:?}, not {:?}", quiet.1);
        assert!(slowest < MAX_PAUSE, "{command} takes {slowest:?}");
    }
}
