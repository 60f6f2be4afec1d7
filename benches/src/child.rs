//! One of several processes that contend for the same names: this program in another role.

use std::{
    process::Child,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use tokio::{runtime::Builder, task::JoinSet};
use tower_redlock::LockOptions;

use crate::{
    contestants::{Contestant, Kind, Waiting},
    role,
    servers::Servers,
    waits::{Wait, Waits},
};

pub(crate) const ROLE: &str = "contender";
/// Time until all processes have started and are connected.
const HEAD_START: Duration = Duration::from_millis(700);

/// The locks that the tasks of a process acquire.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Locks {
    /// This number of names.
    Names(usize),
    /// One name with this number of slots.
    Slots(usize),
    /// One name, which this number of tasks locks exclusively, and the others share.
    Shared { writers: usize },
}

impl Locks {
    /// Returns the name and the options of a task's lock.
    fn of(self, task: usize) -> (String, LockOptions) {
        let options = LockOptions::new();
        match self {
            Self::Names(names) => (format!("bench:processes:{}", task % names), options),
            Self::Slots(slots) => {
                let slots = u32::try_from(slots).expect("256 at most");
                ("bench:slots".into(), options.slots(slots))
            }
            Self::Shared { writers } => ("bench:shared".into(), options.shared(task >= writers)),
        }
    }

    fn to_words(self) -> String {
        match self {
            Self::Names(count) => format!("names {count}"),
            Self::Slots(count) => format!("slots {count}"),
            Self::Shared { writers } => format!("writers {writers}"),
        }
    }

    fn from_words(what: &str, count: usize) -> Self {
        match what {
            "names" => Self::Names(count),
            "slots" => Self::Slots(count),
            "writers" => Self::Shared { writers: count },
            other => panic!("no such locks: {other}"),
        }
    }
}

/// The part of one process: tasks that repeatedly hold one of the locks until the end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) kind: Kind,
    pub(crate) tasks: usize,
    pub(crate) locks: Locks,
    pub(crate) hold: Duration,
    pub(crate) time: Duration,
}

/// One turn, in ns since the beginning. The request may have been made before the beginning.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    pub(crate) asked: u64,
    pub(crate) granted: u64,
    pub(crate) released: u64,
    /// The number of the task in its process.
    pub(crate) task: usize,
}

impl Turn {
    /// Returns the time of the hold within a measurement of this time.
    fn held_within(&self, time: Duration) -> Duration {
        let end = u64::try_from(time.as_nanos()).expect("less than a century");
        Duration::from_nanos(self.released.min(end).saturating_sub(self.granted))
    }

    fn wait(&self, time: Duration) -> Wait {
        Wait {
            time: Duration::from_nanos(self.granted - self.asked),
            is_in_time: u128::from(self.granted) < time.as_nanos(),
        }
    }
}

/// Collects the waits of each process.
pub(crate) fn waits(turns: &[Vec<Turn>], time: Duration) -> Waits {
    let waits = turns.iter().map(|turns| turns.iter().map(|turn| turn.wait(time)).collect());
    Waits::of(&waits.collect::<Vec<_>>(), time)
}

/// Returns the mean number of locks that are held at a time, in all processes together.
pub(crate) fn held_at_a_time(turns: &[Vec<Turn>], time: Duration) -> f64 {
    let held: Duration = turns.iter().flatten().map(|turn| turn.held_within(time)).sum();
    held.as_secs_f64() / time.as_secs_f64()
}

/// Returns the number of turns, as a divisor.
pub(crate) fn count(turns: &[Vec<Turn>]) -> f64 {
    let count: usize = turns.iter().map(Vec::len).sum();
    f64::from(u32::try_from(count).expect("some millions"))
}

/// The contestants that run in processes of their own, by the words of their orders.
const KINDS: [(Kind, &str); 3] =
    [(Kind::Ours, "ours"), (Kind::OnRuntime, "on-runtime"), (Kind::Rslock, "rslock")];

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
        KINDS.iter().find(|(kind, _)| *kind == part.kind).expect("one of these").1,
        part.tasks,
        part.locks.to_words(),
        part.hold.as_micros(),
        part.time.as_millis(),
        urls.join(" ")
    );
    role::start(ROLE, &orders)
}

fn finish(child: Child) -> Vec<Turn> {
    let output = child.wait_with_output().expect("our child");
    assert!(output.status.success(), "{}", output.status);
    let text = String::from_utf8(output.stdout).expect("numbers");
    let turn = |line: &str| {
        let mut numbers = line.split(' ').map(|number| number.parse().expect("a number"));
        let mut next = || numbers.next().expect("four numbers");
        Turn {
            asked: next(),
            granted: next(),
            released: next(),
            task: usize::try_from(next()).expect("some thousands"),
        }
    };
    text.lines().map(turn).collect()
}

/// Carries out the orders, and prints the turns.
pub(crate) fn obey(orders: &str) {
    let mut words = orders.split(' ');
    let mut next = || words.next().expect("complete orders");
    let word = next();
    let kind = KINDS.iter().find(|(_, other)| *other == word).expect("one of these").0;
    let number = |word: &str| word.parse::<u64>().expect("a number");
    let count = |word: &str| word.parse::<usize>().expect("a number");
    let (tasks, locks) = (count(next()), Locks::from_words(next(), count(next())));
    let mut number = || number(next());
    let hold = Duration::from_micros(number());
    let (begin, time) = (number(), Duration::from_millis(number()));
    let urls: Vec<_> = words.map(ToOwned::to_owned).collect();
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let turns = runtime.expect("the system gives threads").block_on(async {
        let alive = urls.len();
        let connecting = Contestant::connect(kind, urls, alive, Waiting::Endless);
        let contestant = Arc::new(connecting.await);
        let left = Duration::from_nanos(begin.saturating_sub(since_epoch()));
        let started = Instant::now() + left;
        tokio::time::sleep(left).await;
        let mut all = JoinSet::new();
        for task in 0..tasks {
            let contestant = Arc::clone(&contestant);
            let (name, options) = locks.of(task);
            all.spawn(async move {
                let mut turns = Vec::new();
                while started.elapsed() < time {
                    let (asked, granted, released) =
                        turn(&contestant, (&name, options), hold, begin).await;
                    turns.push(Turn { asked, granted, released, task });
                }
                turns
            });
        }
        let turns = all.join_all().await;
        contestant.close().await;
        turns
    });
    for Turn { asked, granted, released, task } in turns.into_iter().flatten() {
        println!("{asked} {granted} {released} {task}");
    }
}

/// Acquires, holds and releases a lock once. Returns the times of the request, the grant and the
/// release, in ns since the beginning.
async fn turn(
    contestant: &Contestant,
    (name, options): (&str, LockOptions),
    hold: Duration,
    begin: u64,
) -> (u64, u64, u64) {
    let now = || since_epoch().saturating_sub(begin);
    let asked = now();
    let lock = contestant.acquire_with(name, options).await.expect("granted in the end");
    let granted = now();
    if !hold.is_zero() {
        tokio::time::sleep(hold).await;
    }
    let released = now();
    contestant.give_back(name, lock).await.expect("servers are well");
    (asked, granted, released)
}

/// Returns the time in ns since the epoch, as processes share no other clock.
fn since_epoch() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after it");
    u64::try_from(now.as_nanos()).expect("before 2554")
}
