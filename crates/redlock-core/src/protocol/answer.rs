//! The answers of a node.

use std::{sync::Arc, time::Duration};

use super::{lease_id::Nonce, scan::ScannedAnswer, tick_claim::TickClaim};

/// The answer of a node whose vote counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// The keys are stored for the lease.
    Granted(GrantedAnswer),
    /// At least one of the keys belongs to another lease; nothing was stored.
    Held(HeldAnswer),
    /// The keys still belong to the lease.
    Raised(RaisedAnswer),
    /// The keys belong to the lease for the TTL from now.
    Extended(ExtendedAnswer),
    /// The node has no keys of the lease any more.
    Released(ReleasedAnswer),
    /// The node has no mark of the request any more. True if it had one.
    Withdrawn(bool),
    /// The key of each name, if there is one, in their order.
    Inspected(Vec<Option<Stored>>),
    /// No claim with a smaller token will be accepted.
    Promised(PromisedAnswer),
    /// The claim is stored.
    Claimed,
    /// The record of the name, if there is one, and the remaining time for which it is kept.
    Recorded(Option<(Arc<Record>, Duration)>),
    /// There is no record with this nonce, or nothing of the job, any more. True if there was
    /// something.
    Forgotten(bool),
    /// The claim of each requested job, in order.
    Claims(ClaimsAnswer),
    /// A page of names.
    Scanned(ScannedAnswer),
}

/// The content of [`Answer::Granted`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GrantedAnswer {
    /// Whether the proposed token was above the fence, and the end of its block is the new fence.
    pub accepted: bool,
    /// The fence that the token is not above; zero where it was accepted.
    pub fence: u64,
}

impl GrantedAnswer {
    /// Creates an answer from its parts.
    pub const fn new(accepted: bool, fence: u64) -> Self {
        Self { accepted, fence }
    }
}

/// The content of [`Answer::Held`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HeldAnswer {
    /// The owner; `None` for a key that this crate did not write.
    pub owner: Option<Arc<str>>,
    /// Remaining TTL; `None` for a key without a TTL.
    pub remaining: Option<Duration>,
    /// The fence; zero in the answer to an extension, which does not read it.
    pub fence: u64,
    /// Whether the owner's process may keep the lease after a release. The node has then asked it
    /// for the lease.
    pub lingers: bool,
    /// Whether the key has shared leases; the answer is about the one that lasts longest.
    pub is_shared: bool,
    /// Number of shared leases that have the key. Zero for an exclusive one, and where only the mark
    /// of an exclusive request is left.
    pub readers: usize,
    /// The owner of an exclusive request that waits for the shared leases of the key.
    pub waiter: Option<Arc<str>>,
}

impl HeldAnswer {
    /// Creates an answer from its parts.
    pub const fn new(owner: Option<Arc<str>>, remaining: Option<Duration>, fence: u64) -> Self {
        Self { owner, remaining, fence, lingers: false, is_shared: false, readers: 0, waiter: None }
    }

    /// Sets whether the holder's process may keep the lease after a release.
    #[must_use]
    pub const fn lingering(mut self, lingers: bool) -> Self {
        self.lingers = lingers;
        self
    }

    /// Sets whether the key has shared leases.
    #[must_use]
    pub const fn shared(mut self, is_shared: bool) -> Self {
        self.is_shared = is_shared;
        self
    }

    /// Sets the number of shared leases that have the key.
    #[must_use]
    pub const fn readers(mut self, leases: usize) -> Self {
        self.readers = leases;
        self
    }

    /// Sets the owner of an exclusive request that waits for the shared leases.
    #[must_use]
    pub fn waiter(mut self, owner: Option<Arc<str>>) -> Self {
        self.waiter = owner;
        self
    }
}

/// The content of [`Answer::Raised`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RaisedAnswer {
    /// Whether the token was above the fence, and the end of its block is the new fence.
    pub accepted: bool,
    /// The fence before.
    pub fence: u64,
}

impl RaisedAnswer {
    /// Creates an answer from its parts.
    pub const fn new(accepted: bool, fence: u64) -> Self {
        Self { accepted, fence }
    }
}

/// The content of [`Answer::Extended`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ExtendedAnswer {
    /// Whether an exclusive request waits for the shared leases of the key.
    pub awaited: bool,
}

impl ExtendedAnswer {
    /// No exclusive request waits, or the lease is exclusive.
    pub const UNAWAITED: Self = Self { awaited: false };

    /// Creates an answer from its parts.
    pub const fn new(awaited: bool) -> Self {
        Self { awaited }
    }
}

/// The content of [`Answer::Released`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReleasedAnswer {
    /// Whether all keys existed.
    pub existed: bool,
    /// Whether a waiting client was refused one of them. The node notifies the waiting clients.
    pub awaited: bool,
}

impl ReleasedAnswer {
    /// Creates an answer from its parts.
    pub const fn new(existed: bool, awaited: bool) -> Self {
        Self { existed, awaited }
    }
}

/// The content of [`Answer::Promised`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PromisedAnswer {
    /// Time at which the node lost its data, plus 60 s, in µs since the Unix epoch; zero if it
    /// never did. See [`TickClaim::assumed_run_before`].
    pub floor: u64,
    /// The stored claim.
    pub claim: Option<Box<TickClaim>>,
}

impl PromisedAnswer {
    /// Creates an answer from its parts.
    pub const fn new(floor: u64, claim: Option<Box<TickClaim>>) -> Self {
        Self { floor, claim }
    }
}

/// The content of [`Answer::Claims`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClaimsAnswer {
    /// The floor of the node; see [`PromisedAnswer::floor`].
    pub floor: u64,
    /// The stored claims, in the order of the request.
    pub claims: Vec<Option<TickClaim>>,
}

impl ClaimsAnswer {
    /// Creates an answer from its parts.
    pub const fn new(floor: u64, claims: Vec<Option<TickClaim>>) -> Self {
        Self { floor, claims }
    }
}

/// A record of a name's work, which outlasts the lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// Whether the work is done. Otherwise it was begun, and its outcome is unknown.
    pub is_done: bool,
    /// The lease under which it was recorded.
    pub lease: StoredLease,
    /// Data stored with the record, such as a response to be repeated.
    pub payload: Arc<[u8]>,
}

impl Record {
    /// Creates a record from its parts.
    pub const fn new(is_done: bool, lease: StoredLease, payload: Arc<[u8]>) -> Self {
        Self { is_done, lease, payload }
    }
}

/// A lock's key, as stored by a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stored {
    /// The lease that the key belongs to; `None` for a key that this crate did not write.
    pub lease: Option<StoredLease>,
    /// Remaining TTL; `None` for a key without a TTL.
    pub remaining: Option<Duration>,
    /// Whether a client that waits was refused since the key was stored. It may have given up
    /// since.
    pub awaited: bool,
    /// Whether the holder's process may keep the lease after a release.
    pub lingers: bool,
    /// Number of shared leases that have the key, of which [`lease`](Self::lease) lasts longest;
    /// zero for an exclusive one.
    pub sharing: usize,
    /// The shared leases, the one that lasts longest first: at most
    /// [`MAX_READERS`](Self::MAX_READERS). Empty for an exclusive one.
    pub readers: Vec<StoredLease>,
    /// The exclusive request that waits for the shared leases, by its latest attempt; of several, the
    /// last one.
    pub waiter: Option<StoredLease>,
}

/// A lease, as stored by a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StoredLease {
    /// The secret of the lease. Never shown.
    pub nonce: Nonce,
    /// The fencing token that the lease proposed; zero without fencing.
    pub token: u64,
    /// Time of the request on the holder's wall clock, since the Unix epoch.
    pub since: Duration,
    /// The name of the holder.
    pub owner: Arc<str>,
}

impl Stored {
    /// Maximum number of shared leases that a node lists.
    pub const MAX_READERS: usize = 16;

    /// Creates a key from its parts.
    pub const fn new(lease: Option<StoredLease>, remaining: Option<Duration>) -> Self {
        Self {
            lease,
            remaining,
            awaited: false,
            lingers: false,
            sharing: 0,
            readers: Vec::new(),
            waiter: None,
        }
    }

    /// Sets whether a client that waits was refused.
    #[must_use]
    pub const fn awaited(mut self, awaited: bool) -> Self {
        self.awaited = awaited;
        self
    }

    /// Sets whether the holder's process may keep the lease after a release.
    #[must_use]
    pub const fn lingering(mut self, lingers: bool) -> Self {
        self.lingers = lingers;
        self
    }

    /// Sets the number of shared leases that have the key.
    #[must_use]
    pub const fn sharing(mut self, leases: usize) -> Self {
        self.sharing = leases;
        self
    }

    /// Sets an exclusive request that waits for the shared leases.
    #[must_use]
    pub fn waiter(mut self, waiter: Option<StoredLease>) -> Self {
        self.waiter = waiter;
        self
    }

    /// Sets the shared leases that are listed.
    #[must_use]
    pub fn readers(mut self, leases: Vec<StoredLease>) -> Self {
        self.readers = leases;
        self
    }
}

impl StoredLease {
    /// Creates a stored lease from its parts.
    pub const fn new(nonce: Nonce, token: u64, since: Duration, owner: Arc<str>) -> Self {
        Self { nonce, token, since, owner }
    }
}

impl Answer {
    /// Returns the fence in the answer, or zero.
    pub fn fence(&self) -> u64 {
        match self {
            Self::Granted(GrantedAnswer { fence, .. })
            | Self::Held(HeldAnswer { fence, .. })
            | Self::Raised(RaisedAnswer { fence, .. }) => *fence,
            Self::Extended(_)
            | Self::Withdrawn(_)
            | Self::Released(_)
            | Self::Inspected(_)
            | Self::Scanned(_)
            | Self::Promised(_)
            | Self::Claimed
            | Self::Claims(_)
            | Self::Recorded(_)
            | Self::Forgotten(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fence_of_other_answers_is_zero() {
        let granted = GrantedAnswer { accepted: false, fence: 7 };
        assert_eq!(Answer::Granted(granted).fence(), 7);
        assert_eq!(Answer::Held(HeldAnswer::new(None, None, 8)).fence(), 8);
        assert_eq!(Answer::Raised(RaisedAnswer { accepted: true, fence: 9 }).fence(), 9);
        assert_eq!(Answer::Extended(ExtendedAnswer::UNAWAITED).fence(), 0);
    }
}
