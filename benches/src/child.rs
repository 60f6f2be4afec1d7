//! One of several processes that contend for the same names: this program, with its orders in an
//! environment variable.

use std::{
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use tokio::{runtime::Builder, task::JoinSet};

use crate::{
    contestants::{Contestant, Kind, Patience},
    servers::Servers,
};

const VARIABLE: &str = "TOWER_REDLOCK_BENCH_CHILD";
/// Time until all processes have started and are connected.
const HEAD_START: Duration = Duration::from_millis(700);

/// The part of one process: tasks that repeatedly hold one of the names until the end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) kind: Kind,
    pub(crate) tasks: usize,
    pub(crate) names: usize,
    pub(crate) hold: Duration,
    pub(crate) time: Duration,
}

/// One turn, in ns since the beginning. The request may have been made before the beginning.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    pub(crate) asked: u64,
    pub(crate) granted: u64,
    pub(crate) released: u64,
}

/// Runs a number of processes in parallel, and returns the turns of each.
pub(crate) fn run_all(servers: &Servers, part: Part, processes: usize) -> Vec<Vec<Turn>> {
    let begin = SystemTime::now() + HEAD_START;
    let children: Vec<_> = (0..processes).map(|_| start(part, begin, &servers.urls())).collect();
    let turns = children.into_iter().map(finish).collect();
    servers.settle();
    turns
}

fn start(part: Part, begin: SystemTime, urls: &[String]) -> Child {
    let begin = begin.duration_since(UNIX_EPOCH).expect("after it").as_nanos();
    let orders = format!(
        "{} {} {} {} {begin} {} {}",
        if part.kind == Kind::Ours { "ours" } else { "rslock" },
        part.tasks,
        part.names,
        part.hold.as_micros(),
        part.time.as_millis(),
        urls.join(" ")
    );
    Command::new(std::env::current_exe().expect("it has a path"))
        .env(VARIABLE, orders)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts again")
}

fn finish(child: Child) -> Vec<Turn> {
    let output = child.wait_with_output().expect("our child");
    assert!(output.status.success(), "{}", output.status);
    let text = String::from_utf8(output.stdout).expect("numbers");
    let turn = |line: &str| {
        let mut numbers = line.split(' ').map(|number| number.parse().expect("a number"));
        let mut next = || numbers.next().expect("three numbers");
        Turn { asked: next(), granted: next(), released: next() }
    };
    text.lines().map(turn).collect()
}

/// Returns the orders of this process, if it is a child.
pub(crate) fn orders() -> Option<String> {
    std::env::var(VARIABLE).ok()
}

/// Carries out the orders, and prints the turns.
pub(crate) fn obey(orders: &str) {
    let mut words = orders.split(' ');
    let mut next = || words.next().expect("complete orders");
    let kind = if next() == "ours" { Kind::Ours } else { Kind::Rslock };
    let mut number = || next().parse::<u64>().expect("a number");
    let (tasks, names, hold) = (number(), number(), Duration::from_micros(number()));
    let (begin, time) = (number(), Duration::from_millis(number()));
    let urls: Vec<_> = words.map(ToOwned::to_owned).collect();
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let turns = runtime.expect("the system gives threads").block_on(async {
        let alive = urls.len();
        let connecting = Contestant::connect(kind, urls, alive, Patience::Endless);
        let contestant = Arc::new(connecting.await);
        let left = Duration::from_nanos(begin.saturating_sub(since_epoch()));
        let started = Instant::now() + left;
        tokio::time::sleep(left).await;
        let mut all = JoinSet::new();
        for task in 0..tasks {
            let contestant = Arc::clone(&contestant);
            let name = format!("bench:processes:{}", task % names);
            all.spawn(async move {
                let mut turns = Vec::new();
                while started.elapsed() < time {
                    turns.push(turn(&contestant, &name, hold, begin).await);
                }
                turns
            });
        }
        let turns = all.join_all().await;
        contestant.close().await;
        turns
    });
    for Turn { asked, granted, released } in turns.into_iter().flatten() {
        println!("{asked} {granted} {released}");
    }
}

async fn turn(contestant: &Contestant, name: &str, hold: Duration, begin: u64) -> Turn {
    let now = || since_epoch().saturating_sub(begin);
    let asked = now();
    let lock = contestant.acquire(name).await.expect("granted in the end");
    let granted = now();
    if !hold.is_zero() {
        tokio::time::sleep(hold).await;
    }
    let released = now();
    contestant.give_back(name, lock).await.expect("servers are well");
    Turn { asked, granted, released }
}

/// Returns the time in ns since the epoch, as processes share no other clock.
fn since_epoch() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after it");
    u64::try_from(now.as_nanos()).expect("before 2554")
}
