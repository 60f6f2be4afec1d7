//! Leader election between processes that are killed or frozen, and with a thread that hangs.

use std::{
    sync::{Mutex, mpsc},
    thread,
    time::{Duration, Instant},
};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use rustix::process::Signal;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};
use tower_redlock::{Job, Redlock, Schedule, Scheduler, Term, leader::Leadership};

use super::{
    child::{TestProcess, orders},
    scene::{Scene, connected, patient},
};
use crate::{
    failures::log::{Log, LoggedSpawner},
    support::{HANG_GUARD, RedisServer, Resp, eventually, eventually_async, over},
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

#[test]
fn killed_process_is_followed_by_another() {
    let mut candidates = Candidates::start(3);
    for terms in 2..4 {
        let leader = candidates.take_leader();
        let since = Instant::now();
        // SIGKILL.
        drop(leader);
        candidates.another_leads(terms, since);
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
    let scene = Scene::new(3);
    let log = Log::new();
    let spawner = LoggedSpawner::start(&log);
    let hanging = scene.direct(Redlock::builder().ttl(TTL).spawner(spawner)).await;
    let (go_on, blocked) = mpsc::channel::<()>();
    let (reported, mut causes) =
        tokio::sync::mpsc::unbounded_channel::<tower_redlock::error::LossCause>();
    let leader = hanging.leader("x").stall_limit(LIMIT).on_lost(move |cause| {
        reported.send(cause).unwrap();
    });
    let known = leader.clone();
    let blocked = Mutex::new(blocked);
    let thread = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(leader.run(|_| async {
            // The second term ends at once.
            let _ = blocked.lock().unwrap().recv_timeout(HANG_GUARD);
            std::future::ready(()).await;
        }))
    });
    eventually_async("it leads", async || known.is_leader()).await;
    log.wait_for("WARN", &["resource=leader:x", "hangs in one poll", "for_at_least="]).await;

    let other = scene.direct(Redlock::builder().ttl(TTL)).await;
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

/// The only worker thread of its runtime is busy, so the scheduler is not polled.
#[tokio::test]
async fn jobs_move_while_leaders_runtime_hangs() {
    const LIMIT: Duration = Duration::from_millis(400);
    let scene = Scene::new(3);
    let runs = |redlock: &Redlock| {
        let (ran, runs) = tokio::sync::mpsc::unbounded_channel::<()>();
        let every = Schedule::every(Duration::from_millis(100));
        let job = Job::new("j", every, move |_| {
            let _ = ran.send(());
            std::future::ready(())
        })
        .stall_limit(LIMIT);
        let candidate = redlock.leader("x").stall_limit(LIMIT).heartbeat_within(LIMIT);
        (Scheduler::new(redlock.clone()).job(job).leader_only(candidate), runs)
    };
    let (first, second) = (
        scene.direct(Redlock::builder().ttl(TTL)).await,
        scene.direct(Redlock::builder().ttl(TTL)).await,
    );
    let mut one = tokio::runtime::Builder::new_multi_thread();
    let runtime = one.worker_threads(1).enable_all().build().unwrap();
    let (jobs, mut at_first) = runs(&first);
    let _jobs = runtime.spawn(async move { jobs.start() }).await.unwrap().unwrap();
    tokio::time::timeout(HANG_GUARD, at_first.recv()).await.expect("the first leads");

    let (go_on, blocked) = mpsc::channel::<()>();
    let busy = runtime.spawn(async move { blocked.recv_timeout(HANG_GUARD) });
    let (jobs, mut at_second) = runs(&second);
    let jobs = jobs.start().unwrap();
    tokio::time::timeout(HANG_GUARD, at_second.recv()).await.expect("the second leads");
    assert!(!busy.is_finished(), "the first still hangs");
    // Only the run that had begun before the hang was executed.
    while at_first.try_recv().is_ok() {}
    go_on.send(()).unwrap();
    busy.await.unwrap().unwrap();
    for _ in 0..5 {
        tokio::time::timeout(HANG_GUARD, at_second.recv())
            .await
            .expect("the second continues")
            .unwrap();
    }
    assert!(at_first.try_recv().is_err(), "the first runs nothing while another leads");
    jobs.shutdown(HANG_GUARD).await;
    runtime.shutdown_background();
}

#[tokio::test]
async fn ended_run_frees_the_lock() {
    let scene = Scene::new(5);
    let (a, b) = (scene.direct(patient()).await, scene.direct(patient()).await);
    for _ in 0..50 {
        a.leader("x").run(|term| async move { term.fencing_token() }).await.unwrap();
        b.lock(tower_redlock::Resource::of_leader("x").unwrap())
            .await
            .expect("it leads at once")
            .release()
            .await
            .unwrap();
    }

    scene.all_keys_gone().await;
}

/// Interval between attempts of a standby candidate. A handover after a hint takes far less.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resigning_leader_is_followed_soon() {
    const ROUNDS: usize = 40;
    let scene = Scene::new(5);
    let mut candidates = Vec::new();
    for _ in 0..4 {
        let redlock = scene.direct(Redlock::builder()).await;
        let leader = redlock.leader("x").resign_grace(HANG_GUARD);
        let run = leader.run_until_stopped(|term| async move {
            term.stopping().await;
            Ok::<_, std::convert::Infallible>(())
        });
        candidates.push((leader, tokio::spawn(run)));
    }
    let leads = || candidates.iter().position(|(leader, _)| leader.is_leader());
    let mut took = Vec::new();
    for _ in 0..ROUNDS {
        eventually_async("a candidate leads", async || leads().is_some()).await;
        let former = leads().expect("it led a moment ago");
        // The others are on standby.
        eventually_async("the others are on standby", async || {
            let standing_by =
                |at: &Leadership| matches!(at, Leadership::Standby { leader: Some(_) });
            let mut others = candidates.iter().enumerate().filter(|(number, _)| *number != former);
            others.all(|(_, (leader, _))| standing_by(&leader.transitions().borrow()))
        })
        .await;
        // A subscription follows the standby state. If it comes later than this, the round takes a
        // renewal interval, which the median tolerates.
        tokio::time::sleep(Duration::from_millis(20)).await;
        let mut elected: FuturesUnordered<_> = candidates
            .iter()
            .enumerate()
            .filter(|(number, _)| *number != former)
            .map(|(_, (leader, _))| async {
                let mut transitions = leader.transitions();
                transitions.wait_for(Leadership::is_leading).await.map(drop)
            })
            .collect();
        let since = Instant::now();
        let next = async {
            elected.next().await.expect("there are others").unwrap();
            since.elapsed()
        };
        let both = async { tokio::join!(next, candidates[former].0.resign()).0 };
        took.push(tokio::time::timeout(HANG_GUARD, both).await.expect("another leads"));
    }
    took.sort_unstable();
    let (median, longest) = (took[ROUNDS / 2], took[ROUNDS - 1]);

    println!("followed after {:.2?} to {longest:.2?}, median {median:.2?}", took[0]);

    assert!(median < RENEWAL_INTERVAL / 10, "{took:?}");

    for (leader, run) in candidates {
        leader.stop().await;
        run.await.unwrap().unwrap();
    }
}
