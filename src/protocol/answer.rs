//! The answers of a node.

use std::{sync::Arc, time::Duration};

use super::{Nonce, TickClaim};

/// What a node says, where its vote counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Answer {
    /// The keys are stored for the lease.
    Granted(GrantedAnswer),
    /// At least one of the keys is someone else's; nothing was stored.
    Held(HeldAnswer),
    /// The keys are still the lease's.
    Raised(RaisedAnswer),
    /// The keys are the lease's for the TTL from now.
    Extended,
    /// The lease's keys are not on the node any more.
    Released(ReleasedAnswer),
    /// What the node stores under the name, if anything.
    Inspected(Option<Box<Stored>>),
    /// No claim with a smaller token will be taken.
    Promised(PromisedAnswer),
    /// The claim is kept.
    Claimed,
    /// What is recorded of the name, and for how long still it is kept.
    Recorded(Option<(Arc<Record>, Duration)>),
    /// There is no record of this nonce; whether there was one.
    Forgotten(bool),
    /// The claim of each requested job, in order.
    Claims(ClaimsAnswer),
}

/// What [`Answer::Granted`] says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct GrantedAnswer {
    /// Whether the proposed token was above the fence and is now the fence.
    pub accepted: bool,
    /// The fence before.
    pub fence: u64,
}

impl GrantedAnswer {
    /// The answer of these parts.
    pub const fn new(accepted: bool, fence: u64) -> Self {
        Self { accepted, fence }
    }
}

/// What [`Answer::Held`] says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct HeldAnswer {
    /// The owner; `None` for a key that this crate did not write.
    pub owner: Option<Arc<str>>,
    /// For how long still; `None` without a TTL.
    pub remaining: Option<Duration>,
    /// The fence; zero in the answer to an extension, which does not read it.
    pub fence: u64,
}

impl HeldAnswer {
    /// The answer of these parts.
    pub const fn new(owner: Option<Arc<str>>, remaining: Option<Duration>, fence: u64) -> Self {
        Self { owner, remaining, fence }
    }
}

/// What [`Answer::Raised`] says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct RaisedAnswer {
    /// Whether the token was above the fence and its block is now stored.
    pub accepted: bool,
    /// The fence before.
    pub fence: u64,
}

impl RaisedAnswer {
    /// The answer of these parts.
    pub const fn new(accepted: bool, fence: u64) -> Self {
        Self { accepted, fence }
    }
}

/// What [`Answer::Released`] says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ReleasedAnswer {
    /// Whether all of them were there before.
    pub existed: bool,
    /// Whether somebody was refused one of them meanwhile: those who wait are being told.
    pub awaited: bool,
}

impl ReleasedAnswer {
    /// The answer of these parts.
    pub const fn new(existed: bool, awaited: bool) -> Self {
        Self { existed, awaited }
    }
}

/// What [`Answer::Promised`] says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct PromisedAnswer {
    /// When the node lost what it knew, in µs since the Unix epoch and 60 s later; zero if it
    /// never did. See [`TickClaim::burnt_before`].
    pub floor: u64,
    /// The claim that is kept.
    pub claim: Option<Box<TickClaim>>,
}

impl PromisedAnswer {
    /// The answer of these parts.
    pub const fn new(floor: u64, claim: Option<Box<TickClaim>>) -> Self {
        Self { floor, claim }
    }
}

/// What [`Answer::Claims`] says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ClaimsAnswer {
    /// As in [`PromisedAnswer`].
    pub floor: u64,
    /// The claims.
    pub claims: Vec<Option<TickClaim>>,
}

impl ClaimsAnswer {
    /// The answer of these parts.
    pub const fn new(floor: u64, claims: Vec<Option<TickClaim>>) -> Self {
        Self { floor, claims }
    }
}

/// What a node keeps of a name's work, for longer than a lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Record {
    /// Whether the work is done; else it was begun, and what became of it is not known.
    pub is_done: bool,
    /// The lease under which it was recorded, and when that was.
    pub lease: StoredLease,
    /// What is kept along with it: an answer to be given again, say.
    pub payload: Arc<[u8]>,
}

impl Record {
    /// The parts of a record.
    pub const fn new(is_done: bool, lease: StoredLease, payload: Arc<[u8]>) -> Self {
        Self { is_done, lease, payload }
    }
}

/// A lock's key as a node stores it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Stored {
    /// Whose it is; `None` for a key that this crate did not write.
    pub lease: Option<StoredLease>,
    /// For how long still; `None` without a TTL.
    pub remaining: Option<Duration>,
}

/// Whose a key is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct StoredLease {
    /// The secret of the lease. Never shown.
    pub nonce: Nonce,
    /// The fencing token that the lease asked for; zero without fencing.
    pub token: u64,
    /// Time of the request on the holder's wall clock, since the Unix epoch.
    pub since: Duration,
    /// The holder, as it calls itself.
    pub owner: Arc<str>,
}

impl Stored {
    /// What is stored.
    pub const fn new(lease: Option<StoredLease>, remaining: Option<Duration>) -> Self {
        Self { lease, remaining }
    }
}

impl StoredLease {
    /// The parts of a lease as a node stores them.
    pub const fn new(nonce: Nonce, token: u64, since: Duration, owner: Arc<str>) -> Self {
        Self { nonce, token, since, owner }
    }
}

impl Answer {
    /// The fence that the answer tells, or zero.
    pub fn fence(&self) -> u64 {
        match self {
            Self::Granted(GrantedAnswer { fence, .. })
            | Self::Held(HeldAnswer { fence, .. })
            | Self::Raised(RaisedAnswer { fence, .. }) => *fence,
            Self::Extended
            | Self::Released(_)
            | Self::Inspected(_)
            | Self::Promised(_)
            | Self::Claimed
            | Self::Claims(_)
            | Self::Recorded(_)
            | Self::Forgotten(_) => 0,
        }
    }
}
