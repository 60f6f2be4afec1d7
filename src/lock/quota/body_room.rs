//! A bound on the bodies that are read before their locks are acquired.
//!
//! A body takes room of its manager. A guard moves with the data, from the reader to the body that
//! the handler gets, and returns the room when the data is read or dropped. A body that the handler
//! has not read yet still counts. A single body always has room: otherwise a layer with a larger
//! limit than its manager would refuse every request.

use std::sync::Arc;

use super::quota::WarnThrottle;
use crate::{
    metrics,
    sync::{
        self, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Timers,
};

/// The bytes of bodies that all layers of a manager hold.
pub(crate) struct BodyRoom {
    limit: usize,
    used: AtomicUsize,
    timers: Arc<Timers>,
    warnings: Mutex<WarnThrottle>,
}

/// The error without room for a body. It has the limit, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoRoom(pub(crate) usize);

impl BodyRoom {
    pub(crate) fn new(limit: usize, timers: Arc<Timers>) -> Arc<Self> {
        Arc::new(Self { limit, used: AtomicUsize::new(0), timers, warnings: Mutex::default() })
    }

    fn refuse(&self) -> NoRoom {
        let warns = sync::lock(&self.warnings).count(self.timers.clock().now());
        metrics::over_quota("max_waiting_body_bytes");
        if let Some(requests) = warns {
            crate::log::warn!(
                limit = self.limit,
                requests,
                "max_waiting_body_bytes reached: requests are refused; check what requests wait for, \
                 let them wait for less time, or raise that setting"
            );
        }
        NoRoom(self.limit)
    }
}

/// The bytes of one body. Dropping it returns the room.
pub(crate) struct HeldBytes {
    room: Arc<BodyRoom>,
    bytes: usize,
}

impl HeldBytes {
    pub(crate) fn none(room: &Arc<BodyRoom>) -> Self {
        Self { room: Arc::clone(room), bytes: 0 }
    }

    /// Checks whether a body of `bytes` bytes would have room now, without taking it.
    pub(crate) fn check(&self, bytes: usize) -> Result<(), NoRoom> {
        let used = self.room.used.load(Ordering::Relaxed);
        match self.with(used, bytes) {
            Some(_) => Ok(()),
            None => Err(self.room.refuse()),
        }
    }

    /// Takes room for `bytes` bytes in total.
    pub(crate) fn grow_to(&mut self, bytes: usize) -> Result<(), NoRoom> {
        let (order, with) = (Ordering::Relaxed, |used| self.with(used, bytes));
        if self.room.used.fetch_update(order, order, with).is_err() {
            return Err(self.room.refuse());
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Returns the bytes in use once this body holds `bytes`, or `None` without room. A single body
    /// always has room, because its layer has a limit of its own. A body that does not grow has
    /// room, too.
    fn with(&self, used: usize, bytes: usize) -> Option<usize> {
        let others = used.saturating_sub(self.bytes);
        let all = others.saturating_add(bytes);
        let finds_room = bytes <= self.bytes || others == 0 || all <= self.room.limit;
        finds_room.then_some(all)
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.room.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

opaque_debug!(HeldBytes, BodyRoom);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::SystemClock;

    #[test]
    fn single_body_ignores_the_limit() {
        let room = BodyRoom::new(10, Arc::new(Timers::new(Arc::new(SystemClock::new()))));
        let (mut one, mut other) = (HeldBytes::none(&room), HeldBytes::none(&room));

        assert_eq!((one.grow_to(4), other.grow_to(6)), (Ok(()), Ok(())));
        assert_eq!((one.grow_to(5), other.check(7)), (Err(NoRoom(10)), Err(NoRoom(10))));
        drop(other);
        assert_eq!((one.check(100), one.grow_to(50)), (Ok(()), Ok(())));
        let mut late = HeldBytes::none(&room);
        assert_eq!((late.check(0), late.grow_to(1)), (Ok(()), Err(NoRoom(10))));
        drop((one, late));

        assert_eq!(room.used.load(Ordering::Relaxed), 0);
    }
}
