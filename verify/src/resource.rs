//! The resource that the lock guards: a fence, and the writes that it accepts.

use crate::history::Lease;

/// A write of a holder. Times are as in [`Hold`](crate::history::Hold).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// The holder.
    pub lease: Lease,
    /// A time before the request for the lock.
    pub asked: u64,
    /// A time after it was granted.
    pub acquired: u64,
    /// Without a token, the write is not fenced.
    pub token: Option<u64>,
}

/// Accepts a write unless its token is below one that it has accepted.
#[derive(Debug, Default)]
pub struct Resource {
    highest: Option<u64>,
    /// Start of the latest request whose lease has written.
    newest: u64,
    /// Number of all writes.
    pub writes: usize,
    /// Number of refused writes of leases that a later lease had followed.
    pub stale_refused: usize,
    /// Number of accepted writes of such leases.
    pub stale_accepted: usize,
}

impl Resource {
    /// Returns whether the write was accepted.
    pub fn write(&mut self, write: &Write) -> bool {
        self.writes += 1;
        // The other lease was requested after this one had been granted.
        let is_stale = self.newest > write.acquired;
        let is_accepted = write.token.is_none_or(|token| Some(token) >= self.highest);
        if is_accepted {
            self.highest = self.highest.max(write.token);
            self.newest = self.newest.max(write.asked);
        }
        match (is_stale, is_accepted) {
            (true, true) => self.stale_accepted += 1,
            (true, false) => self.stale_refused += 1,
            (false, _) => {}
        }
        is_accepted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A write under a lease that was requested at `asked` and granted one later.
    fn write(asked: u64, token: Option<u64>) -> Write {
        let lease = Lease { worker: 0, number: asked };
        Write { lease, asked, acquired: asked + 1, token }
    }

    fn resource(writes: &[Write]) -> Resource {
        let mut resource = Resource::default();
        for one in writes {
            resource.write(one);
        }
        resource
    }

    #[test]
    fn one_after_another_is_accepted() {
        let resource = resource(&[write(1, Some(1)), write(1, Some(1)), write(5, Some(2))]);
        assert_eq!((resource.writes, resource.stale_refused, resource.stale_accepted), (3, 0, 0));
    }

    #[test]
    fn older_token_is_refused() {
        let resource = resource(&[write(5, Some(2)), write(1, Some(1))]);
        assert_eq!((resource.stale_refused, resource.stale_accepted), (1, 0));
    }

    #[test]
    fn stale_write_passes_without_tokens() {
        let resource = resource(&[write(5, None), write(1, None)]);
        assert_eq!((resource.stale_refused, resource.stale_accepted), (0, 1));
    }

    #[test]
    fn repeated_token_passes_and_counts() {
        let resource = resource(&[write(5, Some(2)), write(1, Some(2))]);
        assert_eq!((resource.stale_refused, resource.stale_accepted), (0, 1));
    }

    #[test]
    fn concurrent_requests_are_not_stale() {
        let mut second = write(2, Some(2));
        second.acquired = 9;
        let resource = resource(&[write(5, Some(1)), second]);
        assert_eq!((resource.stale_refused, resource.stale_accepted), (0, 0));
    }
}
