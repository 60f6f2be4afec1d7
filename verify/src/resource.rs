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
    /// Number of refused writes of leases that a later lease had followed.
    pub stale_refused: usize,
    /// Number of accepted writes of such leases.
    pub stale_accepted: usize,
}

impl Resource {
    /// Returns whether the write was accepted.
    pub fn write(&mut self, write: &Write) -> bool {
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

    #[test]
    fn stale_writes_are_counted() {
        let concurrent = Write { acquired: 9, ..write(2, Some(2)) };
        for (case, writes, refused, accepted) in [
            ("one after another", [write(1, Some(1)), write(5, Some(2))], 0, 0),
            ("one lease twice", [write(1, Some(1)), write(1, Some(1))], 0, 0),
            ("an older token", [write(5, Some(2)), write(1, Some(1))], 1, 0),
            ("without tokens", [write(5, None), write(1, None)], 0, 1),
            ("a repeated token", [write(5, Some(2)), write(1, Some(2))], 0, 1),
            ("concurrent requests", [write(5, Some(1)), concurrent], 0, 0),
        ] {
            let mut resource = Resource::default();
            let last = writes.map(|write| resource.write(&write))[1];
            assert_eq!(
                (resource.stale_refused, resource.stale_accepted),
                (refused, accepted),
                "{case}"
            );
            assert_eq!(last, refused == 0, "{case}: whether the last write is accepted");
        }
    }
}
