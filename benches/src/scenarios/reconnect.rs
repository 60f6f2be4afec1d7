//! A server of many managers restarts without its data: how the healthy servers answer meanwhile, and when all
//! managers count its vote again. The threads that send PINGs run on the cores of the servers and of the managers.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use tokio::runtime::Builder;
use tower_redlock::{Redlock, node::NodeHealth};

use crate::{
    contestants::{Kind, votes},
    options::Options,
    report::format::time,
    role,
    samples::emit,
    servers::Servers,
    spread::rank,
};

pub(crate) const ROLE: &str = "fleet";

/// The longest TTL of the managers' locks, by which a server without its data waits.
const TTL: Duration = Duration::from_secs(3);
/// Interval between PINGs of one server.
const PING_INTERVAL: Duration = Duration::from_millis(2);
/// Interval between checks whether all managers count a vote.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
const QUICK: Duration = Duration::from_secs(1);

/// The numbers of managers.
pub(crate) const MANAGERS: [usize; 4] = [20, 200, 500, 1_000];

/// The reported quantities, by the names that the report uses. Times are in seconds.
pub(crate) const WORST_BEFORE: &str = "longest PING of a healthy server before";
pub(crate) const P99: &str = "p99 of its PINGs";
pub(crate) const WORST: &str = "longest PING of a healthy server from the restart to the last vote";
/// From the first manager that counts the vote again to the last one.
pub(crate) const ALL_VOTE: &str = "time until all count the vote again, after the first";
/// From the moment at which no manager counts the vote any more.
pub(crate) const PROBATION: &str = "time until the first counts it";

pub(crate) fn case(managers: usize) -> String {
    format!("{managers} managers, one of five servers restarts without its data")
}

pub(crate) fn measure(_: &Servers, options: &Options) {
    let counts = if options.time < QUICK { &MANAGERS[..1] } else { &MANAGERS[1..] };
    let rounds = if options.is_named("reconnect") { options.rounds } else { 1 };
    for _ in 0..rounds {
        for &managers in counts {
            measure_one(managers);
        }
    }
}

fn measure_one(managers: usize) {
    let case = case(managers);
    let emit = |what, value| emit(&case, Kind::Ours.name(), what, value);
    let [mut servers] = Servers::start([5]);
    let mut fleet = role::start(ROLE, &format!("{managers} {}", servers.urls().join(" ")));
    let mut lines = BufReader::new(fleet.stdout.take().expect("it is piped")).lines();
    let mut next = |expected: &str| {
        let line = lines.next().expect("the fleet runs").expect("a text");
        let (what, seconds) = line.split_once(' ').expect("a fact");
        assert_eq!(what, expected);
        seconds.parse::<f64>().expect("a number")
    };
    next("all_vote");
    let healthy = servers.addresses_but_last();
    let before = Pings::start(&healthy);
    // As long as the measurement below, nearly.
    thread::sleep(TTL * 2);
    let before = before.stop();
    let during = Pings::start(&healthy);
    servers.restart_last();
    let first = next("first_votes");
    let last = next("all_vote");
    let during = during.stop();
    assert!(fleet.wait().expect("our child").success(), "the fleet failed");

    let worst = |times: &[f64]| times.last().copied().expect("there are some");
    emit(WORST_BEFORE, worst(&before));
    emit(WORST, worst(&during));
    emit(P99, rank(&during, 99));
    emit(PROBATION, first);
    emit(ALL_VOTE, last - first);
    eprintln!(
        "  {case}: all within {}, PING {} at the most ({} before)",
        time(last - first),
        time(worst(&during)),
        time(worst(&before)),
    );
}

/// PINGs of some servers, each from a thread.
struct Pings {
    is_over: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<Vec<f64>>>,
}

impl Pings {
    fn start(servers: &[SocketAddr]) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let ping = |address: &SocketAddr| {
            let (address, is_over) = (*address, Arc::clone(&is_over));
            thread::spawn(move || ping(address, &is_over))
        };
        let threads = servers.iter().map(ping).collect();
        Self { is_over, threads }
    }

    /// Returns the times of all answers, sorted.
    fn stop(self) -> Vec<f64> {
        self.is_over.store(true, Ordering::Relaxed);
        let times = |thread: thread::JoinHandle<_>| thread.join().expect("it does not panic");
        let mut times: Vec<f64> = self.threads.into_iter().flat_map(times).collect();
        times.sort_by(f64::total_cmp);
        times
    }
}

fn ping(address: SocketAddr, is_over: &AtomicBool) -> Vec<f64> {
    let mut stream = TcpStream::connect(address).expect("it is up");
    stream.set_nodelay(true).expect("a TCP option");
    let (mut times, mut answer) = (Vec::new(), *b"+PONG\r\n");
    while !is_over.load(Ordering::Relaxed) {
        let begun = Instant::now();
        stream.write_all(b"PING\r\n").expect("it is up");
        stream.read_exact(&mut answer).expect("it answers");
        times.push(begun.elapsed().as_secs_f64());
        thread::sleep(PING_INTERVAL);
    }
    times
}

/// Runs as a process with many managers, and reports when the last server votes for them.
pub(crate) fn obey(orders: &str) {
    let mut words = orders.split(' ');
    let managers: usize = words.next().and_then(|word| word.parse().ok()).expect("a number");
    let urls: Vec<_> = words.map(ToOwned::to_owned).collect();
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let manager = |_| Redlock::builder().nodes(urls.clone()).ttl(TTL).build();
        let managers: Vec<_> =
            (0..managers).map(manager).collect::<Result<_, _>>().expect("valid settings");
        join_all(managers.iter().map(|manager| votes(manager, urls.len()))).await;
        println!("all_vote 0");
        let counting = || managers.iter().filter(|manager| counts_last(manager)).count();
        while counting() > 0 {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        let begun = Instant::now();
        while counting() == 0 {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        println!("first_votes {}", begun.elapsed().as_secs_f64());
        while counting() < managers.len() {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        println!("all_vote {}", begun.elapsed().as_secs_f64());
        join_all(managers.iter().map(Redlock::shutdown)).await;
    });
}

fn counts_last(manager: &Redlock) -> bool {
    manager.health().last().is_some_and(NodeHealth::is_voting)
}
