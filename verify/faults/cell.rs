//! A cell of the matrix: a fault, the phase of a lock in which it strikes, and the client.

use std::fmt;
use std::time::Duration;

use crate::fault::{Fault, Promise};

pub(crate) const SERVERS: usize = 5;

/// One of them follows orders, the others contend with it.
pub(crate) const WORKERS: usize = 3;

/// The worker that follows orders.
pub(crate) const SUBJECT: usize = 0;

/// What all keys begin with.
pub(crate) const PREFIX: &str = "faults";

/// The name that the workers contend for.
pub(crate) const NAME: &str = "shared";

/// Its key, of either client.
pub(crate) const LOCK_KEY: &str = "faults:lock:shared";

/// TTL of every lock.
pub(crate) const TTL: Duration = Duration::from_secs(1);

/// Time that a server has for an answer.
pub(crate) const NODE_TIMEOUT: Duration = Duration::from_millis(100);

/// Time from the end of the strike to the beginning of the repair. Longer than a lock lives without
/// renewal.
pub(crate) const FAULT_TIME: Duration = Duration::from_millis(1_500);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    pub(crate) fault: &'static Fault,
    pub(crate) phase: Phase,
    pub(crate) client: Client,
}

/// The state of the subject's lock when the fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// No lock was requested yet.
    Before,
    /// One server has granted, the requests to the others are on their way.
    Acquire,
    /// A quorum has granted.
    Held,
    /// One server has extended, the requests to the others are on their way.
    Renewing,
    /// One server has released, the requests to the others are on their way.
    Releasing,
    /// The release was acknowledged.
    After,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Client {
    /// The crate.
    Redlock,
    /// The crate without its restart guard.
    Unguarded,
    /// Redlock as it is commonly written.
    Plain,
}

impl Phase {
    pub(crate) const ALL: [Self; 6] =
        [Self::Before, Self::Acquire, Self::Held, Self::Renewing, Self::Releasing, Self::After];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::Acquire => "acquire",
            Self::Held => "held",
            Self::Renewing => "renewing",
            Self::Releasing => "releasing",
            Self::After => "after",
        }
    }

    /// A request of the subject is held by the proxies while the fault strikes.
    pub(crate) fn is_in_flight(self) -> bool {
        matches!(self, Self::Acquire | Self::Renewing | Self::Releasing)
    }

    /// The subject holds its lock when the fault strikes, and does not release it.
    pub(crate) fn is_held(self) -> bool {
        matches!(self, Self::Held | Self::Renewing)
    }
}

impl Client {
    pub(crate) const ALL: [Self; 3] = [Self::Redlock, Self::Unguarded, Self::Plain];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Redlock => "redlock",
            Self::Unguarded => "unguarded",
            Self::Plain => "plain",
        }
    }
}

impl Cell {
    /// A control that has no overlap in any of these cells shows that the harness is blind.
    pub(crate) fn must_overlap(&self) -> bool {
        let is_broken = self.fault.breaks_control && self.phase.is_held();
        match self.client {
            Client::Redlock => false,
            // What is beyond the promise does not show what the guard is for.
            Client::Unguarded => is_broken && self.fault.promise == Promise::Exclusion,
            Client::Plain => is_broken,
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({})", self.fault.name, self.phase.name(), self.client.name())
    }
}
