//! Leader election between processes that are killed or frozen, and with a thread that hangs.

use std::{
    sync::{Mutex, mpsc},
    thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};
use tower_redlock::{Redlock, Term};

use crate::fixture::{
    Fixture, HANG_GUARD, Log, LoggedSpawner, RedisServer, Resp,
    child::{TestProcess, orders},
    connected, eventually, eventually_async, over, runtime,
};

const TTL: Duration = Duration::from_secs(2);
const TICK: Duration = Duration::from_millis(10);

/// Records which process leads, how many steps of work it did, and steps of a former leader.
const TICK_SCRIPT: &str = "local newest = tonumber(redis.call('GET', 'token') or '0') \
    local token = tonumber(ARGV[1]) \
    if token > newest then \
      redis.call('SET', 'token', ARGV[1]) redis.call('RPUSH', 'leaders', ARGV[2]) \
    elseif token < newest then redis.call('INCR', 'stale') end \
    return redis.call('INCR', 'ticks')";

async fn work(term: Term, witness: &str) {
    let mut stream = BufReader::new(TcpStream::connect(witness).await.unwrap());
    let (token, process) = (term.fencing_token(), std::process::id());
    let mut answer = String::new();
    loop {
        let command = format!("EVAL \"{TICK_SCRIPT}\" 0 {token} {process}\r\n");
        stream.get_mut().write_all(command.as_bytes()).await.unwrap();
        answer.clear();
        stream.read_line(&mut answer).await.unwrap();
        assert!(answer.starts_with(':'), "{answer}");
        // Pause between two steps of the work.
        tokio::time::sleep(TICK).await;
    }
}

/// Runs in child processes, until it is killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn candidate() {
    let Some(orders) = orders() else { return };
    let mut urls = orders.split(' ');
    let witness = urls.next().unwrap().to_owned();
    let redlock = connected(over(Redlock::builder().ttl(TTL), urls)).await;
    let run = redlock.leader("x").run(move |term| {
        let witness = witness.clone();
        async move { work(term, &witness).await }
    });
    run.await.unwrap();
}

struct Candidates {
    servers: Vec<RedisServer>,
    processes: Vec<TestProcess>,
}

impl Candidates {
    /// Candidates, of which one leads.
    fn start(candidates: usize) -> Self {
        let servers = RedisServer::start_n(6);
        let urls = servers[1..].iter().map(RedisServer::url).collect::<Vec<_>>().join(" ");
        let orders = format!("{} {urls}", servers[0].addr());
        let start = |_| TestProcess::start(module_path!(), "candidate", &orders);
        let candidates = Self { servers, processes: (0..candidates).map(start).collect() };
        eventually("a candidate leads", || candidates.terms() == 1);
        candidates
    }

    fn ask(&self, command: &[&str]) -> u64 {
        match self.servers[0].cli(command) {
            Resp::Int(number) => u64::try_from(number).unwrap(),
            Resp::Bulk(None) => 0,
            answer => answer.text().parse().unwrap(),
        }
    }

    fn terms(&self) -> u64 {
        self.ask(&["LLEN", "leaders"])
    }

    fn ticks(&self) -> u64 {
        self.ask(&["GET", "ticks"])
    }

    /// Removes the leading process from the candidates and returns it.
    fn take_leader(&mut self) -> TestProcess {
        let pid = self.ask(&["LINDEX", "leaders", "-1"]);
        let leads = self.processes.iter().position(|processes| u64::from(processes.pid()) == pid);
        self.processes.remove(leads.expect("one of ours"))
    }

    fn another_leads(&self, terms: u64, since: Instant) {
        eventually("another leads", || self.terms() == terms);
        println!("no leader for {:.2?}, of a TTL of {TTL:?}", since.elapsed());
        let ticks = self.ticks();
        eventually("the leader works", || self.ticks() > ticks + 20);
        assert_eq!(self.ask(&["GET", "stale"]), 0, "steps of a former leader");
    }
}

/// A frozen leader cannot drop its work in time; after it is resumed it must not poll the work.
#[test]
fn resumed_process_does_not_work() {
    let mut candidates = Candidates::start(2);
    let frozen = candidates.take_leader();
    frozen.signal(Signal::STOP);
    candidates.another_leads(2, Instant::now());
    frozen.signal(Signal::CONT);
    let ticks = candidates.ticks();
    eventually("the other leader continues", || candidates.ticks() > ticks + 100);
    assert_eq!(candidates.terms(), 2);
    assert_eq!(candidates.ask(&["GET", "stale"]), 0, "steps of a former leader");
    // The thawed process is on standby.
    let leader = candidates.take_leader();
    drop(leader);
    eventually("the thawed process leads", || candidates.terms() == 3);
}

#[tokio::test]
async fn hanging_thread_loses_the_lock() {
    const LIMIT: Duration = Duration::from_millis(400);
    let fixture = Fixture::new(3);
    let log = Log::new();
    let spawner = LoggedSpawner::start(&log);
    let hanging = fixture.direct(Redlock::builder().ttl(TTL).spawner(spawner)).await;
    let (go_on, blocked) = mpsc::channel::<()>();
    let (reported, mut causes) =
        tokio::sync::mpsc::unbounded_channel::<tower_redlock::error::LossCause>();
    let leader = hanging.leader("x").stall_limit(LIMIT).on_lost(move |cause| {
        reported.send(cause).unwrap();
    });
    let known = leader.clone();
    let blocked = Mutex::new(blocked);
    let thread = thread::spawn(move || {
        let runtime = runtime();
        runtime.block_on(leader.run(|_| async {
            // The second term ends at once.
            let _ = blocked.lock().unwrap().recv_timeout(HANG_GUARD);
            std::future::ready(()).await;
        }))
    });
    eventually_async("it leads", async || known.is_leader()).await;
    log.wait_for("WARN", &["resource=leader:x", "hangs in one poll", "for_at_least="]).await;
    let other = fixture.direct(Redlock::builder().ttl(TTL)).await;
    let (elected, is_elected) = tokio::sync::oneshot::channel();
    let elected = Mutex::new(Some(elected));
    let second = other.leader("x");
    let second = tokio::spawn(second.run(move |_| {
        elected.lock().unwrap().take().unwrap().send(()).unwrap();
        std::future::pending::<()>()
    }));
    tokio::time::timeout(HANG_GUARD, is_elected).await.expect("another leads").unwrap();
    assert!(!known.is_leader());
    go_on.send(()).unwrap();
    // The poll began under the lock, so its result counts.
    assert_eq!(thread.join().unwrap(), Ok(Some(())));
    assert!(causes.try_recv().is_err(), "the work had returned");
    second.abort();
}
