//! What can happen to a server or a worker.

use std::time::Duration;

/// What happens to one process.
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
    /// Its clock jumps ahead by `by` seconds and is set right again.
    Excursion { by: i32, lasts: Duration },
    /// Made a replica of another server, and a master again: its data are the other's. The other is
    /// faulty as well: with its first replica, a master gets a new replication id.
    Copy { from: usize },
    /// Its clients' connections are closed. It keeps its data.
    Disconnect,
}

/// For how long a copy may take until it is given up.
pub(crate) const LONGEST_COPY: Duration = Duration::from_secs(1);

/// What a fault may begin and end too late.
const SLACK: Duration = Duration::from_millis(30);

/// What a server takes to start, more or less.
const START: Duration = Duration::from_millis(150);

/// What it takes until somebody has noticed that a server forgot, more or less.
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

    /// How long the server counts as faulty after it. What it forgot may be held by somebody until
    /// the longest TTL is over, and whatever keeps it from voting until then needs time to notice:
    /// where that takes longer, the [`Ledger`](crate::ledger::Ledger) waits for it. One that kept
    /// its data is as good as before.
    pub(crate) fn recovery(&self, max_ttl: Duration) -> Duration {
        match self {
            Self::Freeze { .. } | Self::Disconnect => Duration::ZERO,
            _ => max_ttl + NOTICE,
        }
    }

    /// Which servers it is done to, if it is done to `server`.
    pub(crate) fn concerns(&self, server: usize) -> Vec<usize> {
        match *self {
            Self::Copy { from } => vec![server, from],
            _ => vec![server],
        }
    }

    /// Whether the server can't be relied upon meanwhile. Closed connections harm nobody's data,
    /// and are back at once.
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
