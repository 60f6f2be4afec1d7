//! A cell of the matrix: a fault, the phase of a lock in which it strikes, and the client.

use std::fmt;
use std::time::Duration;

use tower_redlock_verify::locks::Manner;

use crate::fault::{Fault, Promise};

pub(crate) const SERVERS: usize = 5;

/// Number of workers. One of them follows orders, the others contend with it.
pub(crate) const WORKERS: usize = 3;

/// The worker that follows orders.
pub(crate) const SUBJECT: usize = 0;

/// The prefix of all keys.
pub(crate) const PREFIX: &str = "faults";

/// The key of the contended name, for either client.
pub(crate) const LOCK_KEY: &str = "faults:lock:shared";

/// What the keys of the slots of that name begin with.
pub(crate) const SLOT_KEY: &str = "faults:lock:slot:";

/// Number of slots.
pub(crate) const SLOTS: u32 = 2;

/// Time from the end of the strike to the beginning of the repair, longer than a lock lives without
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
    /// One server has granted, and the requests to the others are in flight.
    Acquire,
    /// A quorum has granted.
    Held,
    /// One server has extended, and the requests to the others are in flight.
    Renewing,
    /// One server has released, and the requests to the others are in flight.
    Releasing,
    /// The release was acknowledged.
    After,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Client {
    /// This crate.
    Redlock,
    /// This crate: the subject and one contender share the name, the other one wants it alone.
    Shared,
    /// This crate: all workers hold slots of the name, of which there are [`SLOTS`].
    Slots,
    /// This crate without its restart guard.
    Unguarded,
    /// Redlock as it is commonly implemented.
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

    /// Returns whether the proxies hold a request of the subject while the fault strikes.
    pub(crate) fn is_in_flight(self) -> bool {
        matches!(self, Self::Acquire | Self::Renewing | Self::Releasing)
    }

    /// Returns whether the subject holds its lock when the fault strikes, and does not release it.
    pub(crate) fn is_held(self) -> bool {
        matches!(self, Self::Held | Self::Renewing)
    }
}

impl Client {
    pub(crate) const ALL: [Self; 5] =
        [Self::Redlock, Self::Shared, Self::Slots, Self::Unguarded, Self::Plain];

    /// Those of a run without options.
    pub(crate) const USUAL: [Self; 3] = [Self::Redlock, Self::Unguarded, Self::Plain];

    /// Returns whether it is this crate as it is used.
    pub(crate) fn is_guarded(self) -> bool {
        matches!(self, Self::Redlock | Self::Shared | Self::Slots)
    }

    /// Returns how a worker acquires the contended name.
    pub(crate) fn manner(self, worker: usize) -> Manner {
        match self {
            Self::Shared if worker + 1 < WORKERS => Manner::Shared,
            Self::Slots => Manner::Slot(SLOTS),
            _ => Manner::Exclusive,
        }
    }

    pub(crate) fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|client| client.name() == name)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Redlock => "redlock",
            Self::Shared => "shared",
            Self::Slots => "slots",
            Self::Unguarded => "unguarded",
            Self::Plain => "plain",
        }
    }
}

impl Cell {
    /// Returns whether the control should overlap. If it overlaps in no such cell, the harness
    /// detects nothing.
    pub(crate) fn must_overlap(&self) -> bool {
        let is_broken = self.fault.breaks_control && self.phase.is_held();
        match self.client {
            Client::Redlock | Client::Shared | Client::Slots => false,
            // Faults beyond the promise do not show the use of the guard.
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
