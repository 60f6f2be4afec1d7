//! An address that moves between two running servers repeatedly, under load.

use std::{
    collections::{BTreeSet, VecDeque},
    convert::Infallible,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::task::JoinHandle;
use tower_redlock::{
    Redlock,
    node::redis::{Address, Connecting, Connector, SocketConnector},
    once::Once,
};

use crate::fixture::{
    Proxy, RedisServer, all_vote, eventually_async,
    guard::{guarded, in_probation},
    in_time,
};

/// Number of moves of the address; `REDLOCK_MOVES` sets another one.
const MOVES: usize = 6;

const MAX_TTL: Duration = Duration::from_millis(500);
const NAMES: usize = 4;
/// Maximum number of clients that started after a move and still work.
const NEWCOMERS: usize = 4;

/// A lookup whose answer for the first node changes.
#[derive(Clone, Debug)]
struct Directory {
    asked: SocketAddr,
    answer: Arc<Mutex<SocketAddr>>,
}

impl Directory {
    fn lead_to(&self, server: &RedisServer) {
        *self.answer.lock().unwrap() = server.addr();
    }
}

impl Connector for Directory {
    fn connect(&self, address: &Address) -> Connecting {
        let moved = match address {
            Address::Tcp { port, .. } if *port == self.asked.port() => {
                let answer = *self.answer.lock().unwrap();
                Address::Tcp { host: answer.ip().to_string(), port: answer.port() }
            }
            other => other.clone(),
        };
        SocketConnector::new().connect(&moved)
    }
}

/// The grants: the current holder of each name, and every token.
#[derive(Debug, Default)]
struct Ledger {
    holders: [Option<(usize, Instant)>; NAMES],
    tokens: BTreeSet<(usize, u64)>,
    newest: [u64; NAMES],
    grants: usize,
    overlaps: Vec<String>,
    repeated: Vec<String>,
    out_of_order: Vec<String>,
    /// The work that was done once, and the work that was repeated.
    done: BTreeSet<u64>,
    done_again: Vec<String>,
}

impl Ledger {
    fn granted(&mut self, name: usize, client: usize, token: u64, until: Instant) {
        self.grants += 1;
        if let Some((other, theirs)) = self.holders[name]
            && theirs > Instant::now()
        {
            self.overlaps.push(format!("{name}: {client} while {other} holds"));
        }
        self.holders[name] = Some((client, until));
        if !self.tokens.insert((name, token)) {
            self.repeated.push(format!("{name}: {token}"));
        }
        if token < self.newest[name] {
            self.out_of_order.push(format!("{name}: {token} after {}", self.newest[name]));
        }
        self.newest[name] = self.newest[name].max(token);
    }

    fn given_back(&mut self, name: usize, client: usize) {
        if self.holders[name].is_some_and(|(holder, _)| holder == client) {
            self.holders[name] = None;
        }
    }
}

/// Acquires and releases locks until stopped.
async fn work(redlock: Redlock, client: usize, ledger: Arc<Mutex<Ledger>>, stop: Arc<AtomicBool>) {
    let mut round = client;
    while !stop.load(Ordering::Relaxed) {
        round += 1;
        let name = round % NAMES;
        let Ok(lock) = redlock.lock(format!("name-{name}")).wait(MAX_TTL / 2).await else {
            continue;
        };
        let until = Instant::now() + lock.remaining();
        let token = lock.fencing_token().get();
        ledger.lock().unwrap().granted(name, client, token, until);
        // The duration of the work.
        tokio::time::sleep(Duration::from_millis(2)).await;
        ledger.lock().unwrap().given_back(name, client);
        let _ = lock.release().await;
    }
}

/// Runs work once per key until stopped. All clients use the same keys, and return to earlier keys.
async fn work_once(
    redlock: Redlock,
    client: usize,
    ledger: Arc<Mutex<Ledger>>,
    stop: Arc<AtomicBool>,
) {
    let mut pieces = 0_u64..;
    while !stop.load(Ordering::Relaxed) {
        let newest = ledger.lock().unwrap().done.last().map_or(0, |newest| newest + 1);
        // A key of another client, maybe done over other servers, or a new key.
        let piece = if pieces.next().is_some_and(|turn| turn % 2 == 0) {
            newest.saturating_sub(client as u64 % 7)
        } else {
            newest
        };
        let work = redlock.once(format!("piece-{piece}")).wait(MAX_TTL / 2);
        let done = work.run(|_| async { Ok::<_, Infallible>(()) }).await;
        if let Ok(Once::Ran(())) = done {
            let mut ledger = ledger.lock().unwrap();
            if !ledger.done.insert(piece) {
                ledger.done_again.push(format!("{piece} by {client}"));
            }
        }
        // Pause between two pieces of work.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn end((stop, tasks): (Arc<AtomicBool>, [JoinHandle<()>; 2])) {
    stop.store(true, Ordering::Relaxed);
    for task in tasks {
        in_time(task).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_overlap_and_no_token_twice() {
    let moves = std::env::var("REDLOCK_MOVES").map_or(MOVES, |moves| moves.parse().unwrap());
    let servers = RedisServer::start_n(4);
    let directory =
        Directory { asked: servers[0].addr(), answer: Arc::new(Mutex::new(servers[0].addr())) };
    // The first client has a link of its own to the third server, the others to the second one.
    // While these stall, each side has a majority of names, and only the first name is in both.
    let links = [Proxy::start(servers[2].addr()), Proxy::start(servers[1].addr())];
    let client = |stays: bool| {
        let builder = Redlock::builder().ttl(MAX_TTL).node_timeout(Duration::from_millis(50));
        let [b, c] = if stays {
            [servers[1].url(), links[0].url()]
        } else {
            [links[1].url(), servers[2].url()]
        };
        let urls = [servers[0].url(), b, c];
        guarded(builder, urls).connector(directory.clone()).build().unwrap()
    };
    let ledger = Arc::new(Mutex::new(Ledger::default()));
    let start = |redlock: &Redlock, number| {
        let stop = Arc::new(AtomicBool::new(false));
        let shared = || (redlock.clone(), number, Arc::clone(&ledger), Arc::clone(&stop));
        let (locks, once) = (shared(), shared());
        let tasks = [
            tokio::spawn(work(locks.0, locks.1, locks.2, locks.3)),
            tokio::spawn(work_once(once.0, once.1, once.2, once.3)),
        ];
        (stop, tasks)
    };
    // The first client stays; another one starts after each move, and works during a few more.
    let stays = client(true);
    all_vote(&stays).await;
    let stayed = start(&stays, 0);
    let mut working = VecDeque::new();
    for number in 1..=moves {
        directory.lead_to(&servers[if number % 2 == 1 { 3 } else { 0 }]);
        let newcomer = client(false);
        working.push_back(start(&newcomer, number));
        if working.len() > NEWCOMERS {
            end(working.pop_front().unwrap()).await;
        }
        // The client's server is not the one that the other clients are connected to: it is found
        // displaced, in probation or blank, and then votes.
        eventually_async("the server of the name is enrolled", async || {
            let health = &newcomer.health()[0];
            in_probation(health) || health.is_voting()
        })
        .await;
        all_vote(&newcomer).await;
        links.iter().for_each(Proxy::stall);
        // The duration of the stall.
        tokio::time::sleep(MAX_TTL / 2).await;
        links.iter().for_each(Proxy::resume);
        // The links that were open stay open: both servers have clients.
    }
    working.push_back(stayed);
    for work in working {
        end(work).await;
    }
    let ledger = ledger.lock().unwrap();
    println!("{moves} moves, {} grants, {} pieces done once", ledger.grants, ledger.done.len());
    assert!(ledger.grants > moves * 10, "{} grants", ledger.grants);
    assert!(ledger.done.len() > moves, "{} pieces", ledger.done.len());
    assert_eq!(ledger.overlaps, Vec::<String>::new());
    assert_eq!(ledger.done_again, Vec::<String>::new());
    assert_eq!(ledger.repeated, Vec::<String>::new());
    assert_eq!(ledger.out_of_order, Vec::<String>::new());
}
