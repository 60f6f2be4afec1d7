//! The task of a worker that contends for the name.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};
use tower_redlock::time::{Clock, SystemClock, Timestamp};
use tower_redlock_verify::belief::Belief;
use tower_redlock_verify::history::{Hold, Lease};
use tower_redlock_verify::locks::{Held, Locks};

use super::link::{Link, Task};
use crate::cell::{Client, NAME, SLOTS, WORKERS};
use crate::ledger::Event;
use crate::message::Report;
use crate::resource::Write;

/// Wait of every request: an attempt and some retries.
const WAIT: Duration = Duration::from_millis(100);

/// Maximum time of a request beyond its wait. A stopped worker or a busy machine is slower than the
/// crate, so this is far above the time that the crate needs.
const MOST_OVER_WAIT: Duration = Duration::from_secs(3);

/// Time after which a request hangs.
const HANG: Duration = Duration::from_secs(15);

const SAMPLE_INTERVAL: Duration = Duration::from_millis(2);
const WRITE_INTERVAL: Duration = Duration::from_millis(20);

/// Delays of the writes of a holder that has not detected the loss of its lock.
const LATE: [Duration; 3] =
    [Duration::from_millis(100), Duration::from_millis(400), Duration::from_millis(1_500)];

/// Times for which a contender keeps the lock.
const SHORT: [Duration; 3] =
    [Duration::from_millis(10), Duration::from_millis(20), Duration::from_millis(40)];

pub(super) struct Holder {
    worker: usize,
    client: Client,
    locks: Arc<Locks>,
    link: Arc<Link>,
    leases: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The lock was valid until its release.
    Released,
    Lost,
}

impl Holder {
    pub(super) fn new(
        (worker, client): (usize, Client),
        locks: Arc<Locks>,
        link: Arc<Link>,
    ) -> Self {
        Self { worker, client, locks, link, leases: 0 }
    }

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
    async fn follow(&mut self) {
        let asked = now();
        let Some(held) = self.acquire().await else { return };
        self.link.report(&Report::Event(Event::Granted));
        let end = self.hold(asked, held, |task, _| task != Task::Acquire).await;
        if end == End::Released {
            self.link.report(&Report::Event(Event::Released));
        }
    }

    async fn contend(&mut self) {
        let asked = now();
        if let Some(held) = self.acquire().await {
            let short = SHORT[usize::try_from(self.leases).unwrap_or_default() % SHORT.len()];
            self.hold(asked, held, |task, time| task == Task::Stop || time >= short).await;
        }
        sleep(SAMPLE_INTERVAL).await;
    }

    async fn acquire(&self) -> Option<Held> {
        let started = Instant::now();
        let result = timeout(HANG, self.request()).await;
        let elapsed = started.elapsed();
        if result.is_err() || elapsed > WAIT + MOST_OVER_WAIT {
            let what = if result.is_err() { "no end of" } else { "a late end of" };
            let slow = format!("worker {}: {what} a request after {elapsed:?}", self.worker);
            self.link.report(&Report::Slow(slow));
        }
        result.ok().flatten()
    }

    async fn request(&self) -> Option<Held> {
        match self.client {
            Client::Shared if self.worker + 1 < WORKERS => self.locks.share(NAME, WAIT).await,
            Client::Slots => self.locks.acquire_slot(NAME, SLOTS, WAIT).await,
            _ => self.locks.acquire(NAME, WAIT).await,
        }
    }

    /// Returns whether holders write to the resource, whose fence counts each holder as a later one.
    fn writes(&self) -> bool {
        !matches!(self.client, Client::Shared | Client::Slots)
    }

    /// Holds the lock until `is_over` returns true for the driver's task and the time since the
    /// grant, and writes to the resource meanwhile.
    async fn hold(
        &mut self,
        asked: Timestamp,
        mut held: Held,
        is_over: impl Fn(Task, Duration) -> bool,
    ) -> End {
        let acquired = now();
        let lease = Lease { worker: self.worker, number: self.leases };
        self.leases += 1;
        let token = held.token();
        let write = Write { lease, asked: asked.as_nanos(), acquired: acquired.as_nanos(), token };
        let mut belief = Belief::new(acquired, held.remaining());
        let mut next_write = acquired;
        let end = loop {
            // The clock is read first: even if the process is stopped afterwards, the lock was
            // valid at that time.
            let now = now();
            if !held.is_valid() {
                break End::Lost;
            }
            belief.valid_at(now, held.remaining());
            if is_over(self.link.wanted().task, now.saturating_duration_since(acquired)) {
                break End::Released;
            }
            if self.writes() && now >= next_write {
                next_write = now + WRITE_INTERVAL;
                self.link.write(write).await;
            } else {
                held.keep().await;
                sleep(SAMPLE_INTERVAL).await;
            }
        };
        self.report(&write, &held, &belief);
        match end {
            End::Released => held.release().await,
            End::Lost => {
                held.drop();
                if self.writes() {
                    tokio::spawn(write_late(Arc::clone(&self.link), write));
                }
            }
        }
        end
    }

    fn report(&self, write: &Write, held: &Held, belief: &Belief) {
        let resource = held.slot().map_or_else(|| NAME.to_owned(), |(_, resource)| resource);
        for stretch in belief.stretches() {
            self.link.report(&Report::Hold(Hold {
                lease: write.lease,
                resource: resource.clone(),
                is_shared: held.is_shared(),
                token: write.token,
                asked: write.asked,
                acquired: write.acquired,
                from: stretch.from.as_nanos(),
                until: stretch.until.as_nanos(),
            }));
        }
    }
}

/// Writes under a lost lock, as work does that has not detected the loss, or as a delayed message.
async fn write_late(link: Arc<Link>, write: Write) {
    let mut after = Duration::ZERO;
    for at in LATE {
        sleep(at.saturating_sub(after)).await;
        after = at;
        link.write(write).await;
    }
}

fn now() -> Timestamp {
    SystemClock::new().now()
}
