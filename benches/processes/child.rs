//! One of the processes: this program again, with orders in its environment.

use std::{
    process::{Child, Command, Stdio},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use rslock::LockManager;
use tokio::{runtime::Runtime, task::JoinSet};
use tower_redlock::{NodeHealth, Redlock};

pub(crate) const VARIABLE: &str = "TOWER_REDLOCK_BENCH_CHILD";

const TTL: Duration = Duration::from_secs(10);
/// Nobody waits in vain.
const WAIT: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Ours,
    Rslock,
}

impl Kind {
    pub(crate) const ALL: [Self; 2] = [Self::Ours, Self::Rslock];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ours => "tower-redlock",
            Self::Rslock => "rslock 0.10",
        }
    }
}

/// A process's part: so many tasks that hold the name for a while, again and again until the end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) kind: Kind,
    pub(crate) tasks: usize,
    pub(crate) hold: Duration,
    pub(crate) begin: SystemTime,
    pub(crate) time: Duration,
}

/// One turn: in ns since the Unix epoch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    pub(crate) asked: u64,
    pub(crate) granted: u64,
    pub(crate) released: u64,
}

pub(crate) fn start(part: Part, urls: &[String]) -> Child {
    let begin = part.begin.duration_since(UNIX_EPOCH).expect("after it").as_millis();
    let orders = format!(
        "{} {} {} {begin} {} {}",
        part.kind.name().split(' ').next().expect("a word"),
        part.tasks,
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

/// What a process did.
pub(crate) fn finish(child: Child) -> Vec<Turn> {
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

/// A new set of servers votes after a while.
pub(crate) fn prepare(urls: &[String]) {
    Runtime::new().expect("threads").block_on(async {
        let redlock = Redlock::builder().nodes(urls.to_vec()).build().expect("valid settings");
        all_vote(&redlock).await;
    });
}

async fn all_vote(redlock: &Redlock) {
    while !redlock.health().iter().all(NodeHealth::is_voting) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after it");
    u64::try_from(now.as_nanos()).expect("before 2554")
}

enum Contestant {
    Ours(Redlock),
    Rslock(LockManager),
}

pub(crate) fn run(orders: &str) {
    let mut words = orders.split(' ');
    let mut next = || words.next().expect("complete orders");
    let is_ours = next() == "tower-redlock";
    let tasks: usize = next().parse().expect("a number");
    let hold = Duration::from_micros(next().parse().expect("a number"));
    let begin = UNIX_EPOCH + Duration::from_millis(next().parse().expect("a number"));
    let time = Duration::from_millis(next().parse().expect("a number"));
    let urls: Vec<String> = words.map(ToOwned::to_owned).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("threads");
    let turns = runtime.block_on(async {
        let contestant = std::sync::Arc::new(if is_ours {
            let builder = Redlock::builder().nodes(urls).wait(WAIT);
            let redlock = builder.build().expect("valid settings");
            all_vote(&redlock).await;
            Contestant::Ours(redlock)
        } else {
            Contestant::Rslock(LockManager::new(urls))
        });
        let left = begin.duration_since(SystemTime::now()).unwrap_or_default();
        let started = Instant::now() + left;
        tokio::time::sleep(left).await;
        let mut all = JoinSet::new();
        for _ in 0..tasks {
            let contestant = std::sync::Arc::clone(&contestant);
            all.spawn(async move {
                let mut turns = Vec::new();
                while started.elapsed() < time {
                    turns.push(contestant.turn(hold).await);
                }
                turns
            });
        }
        let turns = all.join_all().await;
        if let Contestant::Ours(redlock) = &*contestant {
            redlock.shutdown().await;
        }
        turns
    });
    for Turn { asked, granted, released } in turns.into_iter().flatten() {
        println!("{asked} {granted} {released}");
    }
}

impl Contestant {
    async fn turn(&self, hold: Duration) -> Turn {
        const NAME: &str = "bench:contended";
        let asked = now();
        match self {
            Self::Ours(redlock) => {
                let lock = redlock.lock(NAME).await.expect("granted in the end");
                let granted = now();
                held(hold).await;
                let released = now();
                drop(lock);
                Turn { asked, granted, released }
            }
            Self::Rslock(manager) => {
                let lock = loop {
                    if let Ok(lock) = manager.lock(NAME, TTL).await {
                        break lock;
                    }
                };
                let granted = now();
                held(hold).await;
                let released = now();
                manager.unlock(&lock).await;
                Turn { asked, granted, released }
            }
        }
    }
}

async fn held(hold: Duration) {
    if !hold.is_zero() {
        tokio::time::sleep(hold).await;
    }
}
