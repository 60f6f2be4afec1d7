//! One task of a worker: it acquires a lock, holds it for a while, releases it, and reports.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::sleep;
use tower_redlock::time::{Clock, SystemClock};

use crate::belief::Belief;
use crate::history::{Hold, Lease};
use crate::locks::{Held, Locks};
use crate::random::Random;

/// Number of names, so few that a task always waits.
const QUICK_NAMES: u64 = 4;
const SLOW_NAMES: u64 = 8;
/// Number of names that are shared. One request in four for them is exclusive.
const SHARED_NAMES: u64 = 2;
/// The name that has slots.
const POOL: &str = "pool";

const SAMPLE_INTERVAL: Duration = Duration::from_millis(2);

/// The identity of a task, and the TTL of its locks.
#[derive(Clone, Copy, Debug)]
pub struct TaskOptions {
    /// Number of the worker process.
    pub worker: usize,
    /// Number of tasks in each worker.
    pub tasks: usize,
    /// Number of the task within its worker.
    pub number: usize,
    /// Determines the names, waits and holding times.
    pub seed: u64,
    /// TTL of the locks.
    pub ttl: Duration,
    /// Number of slots of which every fourth task holds one, while another fourth of the tasks shares
    /// names; without it, no task does either.
    pub slots: Option<u32>,
}

impl TaskOptions {
    /// Returns the kind of the task's locks. Of the other tasks, most hold locks for long, so that these are renewed while servers forget; the others release theirs quickly, so
    /// that many are acquired.
    fn kind(&self) -> Kind {
        match self.slots {
            Some(slots) if self.number % 4 == 3 => Kind::Slot(slots),
            Some(_) if self.number % 4 == 1 => Kind::Sharing,
            _ if self.number.is_multiple_of(3) => Kind::Quick,
            _ => Kind::Slow,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Quick,
    Slow,
    /// A name that others share.
    Sharing,
    /// One of so many slots.
    Slot(u32),
}

/// A task, as described in the module's docs.
#[derive(Debug)]
pub struct Task {
    options: TaskOptions,
    kind: Kind,
    locks: Arc<Locks>,
    stop: Arc<AtomicBool>,
    random: Random,
}

impl Task {
    /// A task that ends soon after `stop` is set.
    pub fn new(options: TaskOptions, locks: Arc<Locks>, stop: Arc<AtomicBool>) -> Self {
        let stream = 1 + options.worker * options.tasks + options.number;
        let stream = u64::try_from(stream).expect("a small number");
        Self {
            options,
            kind: options.kind(),
            locks,
            stop,
            random: Random::stream(options.seed, stream),
        }
    }

    /// Acquires locks, and prints a line for each stretch of a hold, until it is stopped.
    pub async fn run(mut self) {
        while !self.stop.load(Ordering::Relaxed) {
            self.cycle().await;
            let pause = self.random.millis(0..10);
            sleep(pause).await;
        }
    }

    async fn cycle(&mut self) {
        let name = self.name();
        let wait = self.random.millis(0..200);
        let wanted = match self.kind {
            Kind::Quick => self.random.millis(1..60),
            Kind::Slow => self.random.times(self.options.ttl, 0.1, 8.0),
            Kind::Slot(_) | Kind::Sharing => self.random.times(self.options.ttl, 0.01, 2.0),
        };
        let is_shared = self.kind == Kind::Sharing && !self.random.one_in(4);
        let awaits_release = self.random.one_in(2);
        let clock = SystemClock::new();
        let asked = clock.now();
        let Some(mut held) = self.acquire(&name, is_shared, wait).await else { return };
        let acquired = clock.now();
        let mut belief = Belief::new(acquired, held.remaining());
        loop {
            // The clock is read first: even if the process is stopped afterwards, the lock was
            // valid at that time.
            let now = clock.now();
            if !held.is_valid() {
                break;
            }
            belief.valid_at(now, held.remaining());
            if now.saturating_duration_since(acquired) >= wanted
                || self.stop.load(Ordering::Relaxed)
            {
                break;
            }
            held.keep().await;
            sleep(SAMPLE_INTERVAL).await;
        }
        let name = held.slot().map_or(name, |(_, resource)| resource);
        self.tell(&name, &held, &belief, [asked.as_nanos(), acquired.as_nanos()]);
        if awaits_release {
            held.release().await;
        } else {
            held.drop();
        }
    }

    async fn acquire(&self, name: &str, is_shared: bool, wait: Duration) -> Option<Held> {
        if is_shared {
            return self.locks.share(name, wait).await;
        }
        let Kind::Slot(slots) = self.kind else { return self.locks.acquire(name, wait).await };
        let held = self.locks.acquire_slot(name, slots, wait).await?;
        // The checker compares the holders of each slot: with these numbers, there are no more
        // holders than slots. The end of a worker fails the run.
        let number = held.slot().map(|(number, _)| number);
        if number.is_none_or(|number| number >= slots) {
            eprintln!("slot {number:?} of {slots}");
            std::process::exit(1);
        }
        Some(held)
    }

    fn tell(&self, name: &str, lock: &Held, belief: &Belief, [asked, acquired]: [u64; 2]) {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let lease =
            Lease { worker: self.options.worker, number: NEXT.fetch_add(1, Ordering::Relaxed) };
        for stretch in belief.stretches() {
            let hold = Hold {
                lease,
                resource: name.to_owned(),
                is_shared: lock.is_shared(),
                token: lock.token(),
                asked,
                acquired,
                from: stretch.from.as_nanos(),
                until: stretch.until.as_nanos(),
            };
            println!("{}", hold.to_line());
        }
    }

    fn name(&mut self) -> String {
        match self.kind {
            Kind::Quick => format!("quick-{}", self.random.below(QUICK_NAMES)),
            Kind::Slow => format!("slow-{}", self.random.below(SLOW_NAMES)),
            Kind::Sharing => format!("shared-{}", self.random.below(SHARED_NAMES)),
            Kind::Slot(_) => POOL.into(),
        }
    }
}
