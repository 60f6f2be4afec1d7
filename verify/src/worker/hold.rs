//! A hold from its grant to its end, with the reports about it.

use std::time::Duration;

use tokio::time::sleep;
use tower_redlock::time::{Clock, SystemClock, Timestamp};

use super::link::Link;
use crate::belief::Belief;
use crate::history::{Hold, Lease};
use crate::locks::Held;
use crate::message::Report;
use crate::resource::Write;

/// Interval between two queries of a lock's validity.
pub(super) const SAMPLE_INTERVAL: Duration = Duration::from_millis(2);

/// Interval between two writes of a holder.
const WRITE_INTERVAL: Duration = Duration::from_millis(20);

/// Why a hold ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The lock was valid until it was to be released.
    Over,
    Lost,
}

/// A granted lock.
pub(super) struct Grant<'a> {
    pub(super) name: &'a str,
    pub(super) held: Held,
    /// The lease, and the times around its grant.
    pub(super) write: Write,
    pub(super) acquired: Timestamp,
}

impl<'a> Grant<'a> {
    /// A lock that was just granted, by a request that began at `asked`.
    pub(super) fn new(worker: usize, name: &'a str, asked: Timestamp, held: Held) -> Self {
        let (acquired, token) = (now(), held.token());
        let (lease, asked) = (Lease::next(worker), asked.as_nanos());
        let write = Write { lease, asked, acquired: acquired.as_nanos(), token };
        Self { name, held, write, acquired }
    }

    /// Holds the lock until `is_over` returns true for the time since the grant, or it is lost, and
    /// reports the hold. If the holder `writes`, it writes to the resource meanwhile.
    pub(super) async fn hold(
        &mut self,
        link: &Link,
        writes: bool,
        is_over: impl Fn(Duration) -> bool,
    ) -> End {
        let mut belief = Belief::new(self.acquired, self.held.remaining());
        let mut next_write = self.acquired;
        let end = loop {
            // The clock is read first: even if the process is stopped afterwards, the lock was
            // valid at that time.
            let now = now();
            if !self.held.is_valid() {
                break End::Lost;
            }
            belief.valid_at(now, self.held.remaining());
            if is_over(now.saturating_duration_since(self.acquired)) {
                break End::Over;
            }
            if writes && now >= next_write {
                next_write = now + WRITE_INTERVAL;
                link.write(self.write).await;
            } else {
                self.held.keep().await;
                sleep(SAMPLE_INTERVAL).await;
            }
        };
        self.report(link, &belief);
        end
    }

    fn report(&self, link: &Link, belief: &Belief) {
        let resource = self.held.slot().map_or_else(|| self.name.to_owned(), |(_, name)| name);
        for stretch in belief.stretches() {
            link.report(&Report::Hold(Hold {
                lease: self.write.lease,
                resource: resource.clone(),
                is_shared: self.held.is_shared(),
                token: self.write.token,
                asked: self.write.asked,
                acquired: self.write.acquired,
                from: stretch.from.as_nanos(),
                until: stretch.until.as_nanos(),
            }));
        }
    }
}

/// The clock that all processes of the machine share.
pub(super) fn now() -> Timestamp {
    SystemClock::new().now()
}
