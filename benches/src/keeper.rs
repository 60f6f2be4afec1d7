//! A process that holds many locks, and reports their cost.

use std::{
    fs,
    future::IntoFuture,
    io::{BufRead, BufReader, Lines},
    process::{Child, ChildStdout},
    time::{Duration, Instant},
};

use futures_util::{Stream, StreamExt, future::join_all, stream};
use tokio::{runtime::Runtime, time::sleep};
use tower_redlock::{Lock, Redlock, lock::LockEventKind};

use crate::{contestants::votes, processor, role};

pub(crate) const ROLE: &str = "keeper";

/// Maximum number of concurrent requests of the process while it acquires.
const AT_A_TIME: usize = 64;
/// Number of locks that are acquired and released before the memory is read, so that connections
/// have their buffers.
const WARM_UP: usize = 1_000;
/// Number of times that the validity of all locks is read during the measurement.
const VALIDITY_READS: u32 = 8;
/// Timeout for one lock.
const WAIT: Duration = Duration::from_secs(60);

/// The orders of the process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Orders {
    /// Number of managers, each with its own connections.
    pub(crate) managers: usize,
    /// Total number of locks.
    pub(crate) locks: usize,
    pub(crate) ttl: Duration,
    /// Time for which the locks are held after the first renewal of each.
    pub(crate) time: Duration,
    /// Time for which idle managers are measured first.
    pub(crate) idle: Duration,
}

/// A fact that the process reports, with a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fact {
    /// Seconds until the managers may acquire.
    Connected,
    /// Bytes of memory that the managers take.
    ConnectedMemory,
    /// The measurement of idle managers begins.
    IdleBegins,
    /// It ends; the number is the processor time of this process in seconds.
    IdleEnds,
    /// Seconds until all locks were held.
    Acquired,
    /// Bytes of memory that the locks take.
    Memory,
    /// The measurement begins; the number is the number of threads.
    Begins,
    /// The measurement ends; the number is the processor time of this process in seconds.
    Ends,
    /// Locks that were lost.
    Lost,
    /// The least remaining validity of a lock, in seconds.
    LeastRemaining,
    /// Seconds until all locks were released.
    Released,
}

impl Fact {
    const ALL: [Self; 11] = [
        Self::Connected,
        Self::ConnectedMemory,
        Self::IdleBegins,
        Self::IdleEnds,
        Self::Acquired,
        Self::Memory,
        Self::Begins,
        Self::Ends,
        Self::Lost,
        Self::LeastRemaining,
        Self::Released,
    ];

    fn emit(self, value: f64) {
        println!("{self:?} {value:e}");
    }
}

/// A running process that holds locks.
#[derive(Debug)]
pub(crate) struct Keeper {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Keeper {
    pub(crate) fn start(orders: Orders, urls: &[String]) -> Self {
        let Orders { managers, locks, ttl, time, idle } = orders;
        let [ttl, time, idle] = [ttl, time, idle].map(|time| time.as_millis());
        let orders = format!("{managers} {locks} {ttl} {time} {idle} {}", urls.join(" "));
        let mut process = role::start(ROLE, &orders);
        let stdout = process.stdout.take().expect("it is piped");
        Self { process, lines: BufReader::new(stdout).lines() }
    }

    /// Waits for the next fact, until the process ends.
    pub(crate) fn next(&mut self) -> Option<(Fact, f64)> {
        let Some(line) = self.lines.next() else {
            let status = self.process.wait().expect("our child");
            assert!(status.success(), "{status}");
            return None;
        };
        let line = line.expect("a text");
        let (fact, value) = line.split_once(' ').expect("a fact");
        let fact = Fact::ALL.into_iter().find(|known| format!("{known:?}") == fact);
        Some((fact.expect("a known fact"), value.parse().expect("a number")))
    }
}

/// Carries out the orders.
pub(crate) fn obey(orders: &str) {
    let mut words = orders.split(' ');
    let mut number = || words.next().and_then(|word| word.parse::<u32>().ok()).expect("a number");
    let [managers, locks] = [number(), number()].map(|number| number as usize);
    let mut duration = || Duration::from_millis(number().into());
    let [ttl, time, idle] = [duration(), duration(), duration()];
    let urls: Vec<_> = words.map(ToOwned::to_owned).collect();
    let orders = Orders { managers, locks, ttl, time, idle };
    Runtime::new().expect("the system gives threads").block_on(keep(orders, &urls));
}

async fn keep(orders: Orders, urls: &[String]) {
    let Orders { managers, locks, ttl, time, idle } = orders;
    let (begun, before) = (Instant::now(), status("VmRSS") * 1024.0);
    let managers: Vec<_> = (0..managers).map(|_| manager(urls, ttl)).collect();
    join_all(managers.iter().map(|manager| votes(manager, urls.len()))).await;
    Fact::Connected.emit(begun.elapsed().as_secs_f64());
    acquire(&managers, "warm-up", WARM_UP).for_each(async |lock| drop(lock)).await;
    while managers.iter().any(|manager| manager.snapshot().releasing > 0) {
        sleep(Duration::from_millis(1)).await;
    }
    let connected = status("VmRSS") * 1024.0;
    Fact::ConnectedMemory.emit(connected - before);
    if !idle.is_zero() {
        // A manager is idle after the longest TTL of the set without an operation.
        let longest = managers[0].health().iter().filter_map(|node| node.max_ttl).max();
        sleep(longest.unwrap_or(ttl) + Duration::from_secs(2)).await;
        let used = processor::own();
        Fact::IdleBegins.emit(0.0);
        sleep(idle).await;
        Fact::IdleEnds.emit(processor::own().saturating_sub(used).as_secs_f64());
    }
    let mut events: Vec<_> = managers.iter().map(Redlock::events).collect();

    let begun = Instant::now();
    let held: Vec<_> = acquire(&managers, "kept", locks).collect().await;
    Fact::Acquired.emit(begun.elapsed().as_secs_f64());
    Fact::Memory.emit(status("VmRSS") * 1024.0 - connected);
    // Renewals are due after a third of the validity. From then on, all thirds are alike.
    sleep(ttl / 3).await;
    Fact::Begins.emit(status("Threads"));
    let (used, mut least) = (processor::own(), Duration::MAX);
    for _ in 0..VALIDITY_READS {
        sleep(time / VALIDITY_READS).await;
        least = least.min(held.iter().map(Lock::remaining).min().expect("some are held"));
    }
    Fact::Ends.emit(processor::own().saturating_sub(used).as_secs_f64());

    Fact::Lost.emit(count(held.iter().filter(|lock| !lock.is_valid()).count()));
    Fact::LeastRemaining.emit(least.as_secs_f64());
    for events in &mut events {
        while let Ok(event) = events.try_recv() {
            if let LockEventKind::Lost { resource, cause, .. } = event.kind {
                eprintln!("    lost {resource}: {cause}");
            }
        }
    }
    let begun = Instant::now();
    drop(held);
    join_all(managers.iter().map(Redlock::shutdown)).await;
    Fact::Released.emit(begun.elapsed().as_secs_f64());
}

fn manager(urls: &[String], ttl: Duration) -> Redlock {
    let builder = Redlock::builder().nodes(urls.to_vec()).ttl(ttl).wait(WAIT);
    builder.build().expect("valid settings")
}

/// Acquires locks, of all managers in turn.
fn acquire(managers: &[Redlock], name: &str, locks: usize) -> impl Stream<Item = Lock> {
    let request = move |i: usize| {
        managers[i % managers.len()].lock(format!("bench:{name}:{i}")).into_future()
    };
    let acquired = stream::iter((0..locks).map(request)).buffer_unordered(AT_A_TIME);
    acquired.map(|lock| lock.expect("it is free"))
}

/// Returns a number from `/proc/self/status`, if the system has it.
fn status(field: &str) -> f64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let number = value.and_then(|value| value.split_whitespace().next()?.parse().ok());
    number.unwrap_or(f64::NAN)
}

fn count(number: usize) -> f64 {
    f64::from(u32::try_from(number).expect("some millions"))
}
