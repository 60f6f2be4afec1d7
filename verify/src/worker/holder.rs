//! The task of a worker that contends for the common name.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};

use super::hold::{End, Grant, SAMPLE_INTERVAL, now};
use super::link::{Link, Task};
use crate::ledger::Event;
use crate::locks::{Held, Locks, Manner};
use crate::message::Report;
use crate::resource::Write;

/// The name that the workers contend for.
pub const NAME: &str = "shared";

/// Wait of every request: an attempt and some retries.
const WAIT: Duration = Duration::from_millis(100);

/// Maximum time of a request beyond its wait. A stopped worker or a busy machine is slower than the
/// crate, so this is far above the time that the crate needs.
const MAX_OVER_WAIT: Duration = Duration::from_secs(3);

/// Time after which a request hangs.
const HANG: Duration = Duration::from_secs(15);

/// Delays of the writes of a holder that has not detected the loss of its lock.
const LATE_WRITES: [Duration; 3] =
    [Duration::from_millis(100), Duration::from_millis(400), Duration::from_millis(1_500)];

/// Times for which a contender keeps the lock, in turn.
const SHORT_HOLDS: [Duration; 3] =
    [Duration::from_millis(10), Duration::from_millis(20), Duration::from_millis(40)];

pub(super) struct Holder {
    worker: usize,
    manner: Manner,
    locks: Arc<Locks>,
    link: Arc<Link>,
    leases: usize,
}

impl Holder {
    pub(super) fn new(worker: usize, manner: Manner, locks: Arc<Locks>, link: Arc<Link>) -> Self {
        Self { worker, manner, locks, link, leases: 0 }
    }

    /// Follows the driver's orders until it orders the end.
    pub(super) async fn run(mut self) {
        loop {
            self.link.until(|wanted| wanted.task != Task::Idle).await;
            match self.link.wanted().task {
                Task::Idle => {}
                Task::Acquire => self.follow().await,
                Task::Contend => self.contend().await,
                Task::Stop => return,
            }
        }
    }

    /// Keeps the lock until the driver's order changes.
    async fn follow(&self) {
        let asked = now();
        let Some(held) = self.acquire().await else { return };
        self.link.report(&Report::Event(Event::Granted));
        let grant = Grant::new(self.worker, NAME, asked, held);
        if self.hold(grant, |task, _| task != Task::Acquire).await == End::Over {
            self.link.report(&Report::Event(Event::Released));
        }
    }

    async fn contend(&mut self) {
        let asked = now();
        if let Some(held) = self.acquire().await {
            let short = SHORT_HOLDS[self.leases % SHORT_HOLDS.len()];
            self.leases += 1;
            let grant = Grant::new(self.worker, NAME, asked, held);
            self.hold(grant, |task, time| task == Task::Stop || time >= short).await;
        }
        sleep(SAMPLE_INTERVAL).await;
    }

    async fn acquire(&self) -> Option<Held> {
        let started = Instant::now();
        let result = timeout(HANG, self.locks.acquire(NAME, self.manner, WAIT)).await;
        let elapsed = started.elapsed();
        if result.is_err() || elapsed > WAIT + MAX_OVER_WAIT {
            let what = if result.is_err() { "no end of" } else { "a late end of" };
            let slow = format!("worker {}: {what} a request after {elapsed:?}", self.worker);
            self.link.report(&Report::Slow(slow));
        }
        result.ok().flatten()
    }

    /// Holds the lock until `is_over` returns true for the driver's task and the time since the
    /// grant, and releases it. Holders write to the resource unless they share the name or hold
    /// slots of it, as its fence counts each holder as a later one.
    async fn hold(&self, mut grant: Grant<'_>, is_over: impl Fn(Task, Duration) -> bool) -> End {
        let writes = self.manner == Manner::Exclusive;
        let is_over = |time| is_over(self.link.wanted().task, time);
        let end = grant.hold(&self.link, writes, is_over).await;
        match end {
            End::Over => grant.held.release().await,
            End::Lost => {
                grant.held.drop();
                if writes {
                    tokio::spawn(write_late(Arc::clone(&self.link), grant.write));
                }
            }
        }
        end
    }
}

/// Writes under a lost lock, as work does that has not detected the loss, or as a delayed message.
async fn write_late(link: Arc<Link>, write: Write) {
    let mut after = Duration::ZERO;
    for at in LATE_WRITES {
        sleep(at.saturating_sub(after)).await;
        after = at;
        link.write(write).await;
    }
}
