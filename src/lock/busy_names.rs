//! Names that were not free lately.
//!
//! A name that is believed to be free is acquired by plain commands with a single token
//! ([`Encoder::encode_plain`](crate::node::redis)), which are cheaper for a server than the script. Where the name
//! is held after all, the attempt costs another round trip, and it has raised the fence. So names that another
//! process held, or for which a request of this process waited, are acquired by the script for a while, with a
//! block of tokens for hand-offs.

use std::time::Duration;

use crate::{
    resource::Resource,
    stripe::STRIPES,
    sync::atomic::{AtomicU64, Ordering},
    time::Timestamp,
};

/// Time for which a name is not believed to be free after a request found it busy: twice the longest pause of a
/// request that waits for another process, whose attempts would otherwise begin with plain commands.
const BUSY_FOR: Duration = Duration::from_secs(2);

/// The time at which a name of each stripe was last busy, in ns; 0 for never.
#[derive(Debug)]
pub(crate) struct BusyNames(Box<[AtomicU64]>);

impl BusyNames {
    pub(crate) fn new() -> Self {
        Self((0..STRIPES).map(|_| AtomicU64::new(0)).collect())
    }

    /// Records that names are held, or waited for.
    pub(crate) fn note(&self, resource: &Resource, now: Timestamp) {
        for stripe in resource.stripes() {
            self.0[stripe].fetch_max(now.as_nanos().max(1), Ordering::Relaxed);
        }
    }

    /// Returns whether no name of these stripes was busy lately.
    pub(crate) fn are_free(&self, resource: &Resource, now: Timestamp) -> bool {
        resource.stripes().all(|stripe| {
            let at = self.0[stripe].load(Ordering::Relaxed);
            at == 0 || now.saturating_duration_since(Timestamp::from_nanos(at)) >= BUSY_FOR
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_names_are_free_after_a_while() {
        let busy = BusyNames::new();
        let [a, b] = ["a", "b"].map(|name| Resource::try_from(name).unwrap());
        let both = Resource::try_from(["a", "b"]).unwrap();
        let now = Timestamp::from_nanos(7);
        assert!(busy.are_free(&both, now));

        busy.note(&a, now);
        busy.note(&a, Timestamp::ZERO);

        assert!(busy.are_free(&b, now));
        assert!(!busy.are_free(&a, Timestamp::from_nanos(6) + BUSY_FOR));
        assert!(!busy.are_free(&both, now));
        assert!(busy.are_free(&a, now + BUSY_FOR));
    }
}
