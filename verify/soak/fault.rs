//! The faults of servers and workers.

use std::time::Duration;

/// A fault of one process.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Strike {
    Server(usize, Fault),
    /// A worker is stopped for longer than its locks live.
    Worker(usize, Duration),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Fault {
    /// Killed, and started again without data.
    Blank { down: Duration },
    /// Killed, and started again from an older snapshot, which `choice` picks.
    Restore { down: Duration, choice: u64 },
    /// All its keys are deleted.
    Flush,
    /// Stopped for a while. It keeps its data.
    Freeze { lasts: Duration },
    /// Its clock jumps ahead by `by` seconds and is later corrected.
    Excursion { by: i32, lasts: Duration },
    /// It is made a replica of another server, and a master again, so it has the other's data. The
    /// other server is faulty as well, as a master gets a new replication id with its first
    /// replica.
    Copy { from: usize },
    /// Its clients' connections are closed. It keeps its data.
    Disconnect,
}

/// Time after which a copy is abandoned.
pub(crate) const LONGEST_COPY: Duration = Duration::from_secs(1);

/// Maximum delay of the begin and the end of a fault.
const SLACK: Duration = Duration::from_millis(30);

/// Approximate time for a server to start.
const START: Duration = Duration::from_millis(150);

/// Approximate time until a client has detected that a server forgot.
const NOTICE: Duration = Duration::from_millis(200);

impl Fault {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Blank { .. } => "restart, blank",
            Self::Restore { .. } => "restart, older snapshot",
            Self::Flush => "all keys deleted",
            Self::Freeze { .. } => "server frozen",
            Self::Excursion { .. } => "clock forward, back later",
            Self::Copy { .. } => "another server's data",
            Self::Disconnect => "connections closed",
        }
    }

    /// Its planned duration.
    pub(crate) fn lasts(&self) -> Duration {
        SLACK
            + match self {
                Self::Blank { down } | Self::Restore { down, .. } => *down + START,
                Self::Freeze { lasts } | Self::Excursion { lasts, .. } => *lasts,
                Self::Copy { .. } => LONGEST_COPY,
                Self::Flush | Self::Disconnect => Duration::ZERO,
            }
    }

    /// Returns the time for which the server counts as faulty after the fault. A client may hold a
    /// lock that the server forgot until the longest TTL is over, and the guard that keeps it from
    /// voting until then needs time to detect the loss. If that takes longer, the
    /// [`Ledger`](crate::ledger::Ledger) waits for it. A server that kept its data is sound at
    /// once.
    pub(crate) fn recovery(&self, max_ttl: Duration) -> Duration {
        match self {
            Self::Freeze { .. } | Self::Disconnect => Duration::ZERO,
            _ => max_ttl + NOTICE,
        }
    }

    /// Returns the affected servers, if the fault happens to `server`.
    pub(crate) fn concerns(&self, server: usize) -> Vec<usize> {
        match *self {
            Self::Copy { from } => vec![server, from],
            _ => vec![server],
        }
    }

    /// Returns whether the server is unreliable meanwhile. Closed connections affect no data, and
    /// are reopened at once.
    pub(crate) fn makes_faulty(&self) -> bool {
        *self != Self::Disconnect
    }
}

impl Strike {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Server(_, fault) => fault.name(),
            Self::Worker(..) => "worker frozen",
        }
    }
}
