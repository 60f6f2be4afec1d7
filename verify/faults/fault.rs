//! The faults: their effect, the number of servers, and the promises that hold under them.

use std::fmt;
use std::time::Duration;

use Kind as K;

use crate::cell::FAULT_TIME;

/// A fault that strikes now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Strike {
    pub(crate) fault: &'static Fault,
    /// The affected servers.
    pub(crate) targets: Vec<usize>,
    /// Time from the end of the strike to the beginning of the repair.
    pub(crate) lasts: Duration,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    pub(crate) name: &'static str,
    /// A description of the fault.
    pub(crate) what: &'static str,
    /// Number of servers that it affects.
    pub(crate) servers: usize,
    pub(crate) promise: Promise,
    /// Whether the control has overlaps if the fault strikes while its lock is held.
    pub(crate) breaks_control: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    KillBlank,
    KillAof,
    Stop,
    WorkerStop,
    Partition,
    Split,
    LostRequests,
    LostReplies,
    Delay,
    ClientPause,
    FlushAll,
    ScriptFlush,
    MemoryFull,
    Eviction,
    Promotion,
    BusyScript,
    AclRevoked,
    PasswordRotated,
    CertificateExpired,
    DnsChanged,
    ClockForward,
    Descriptors,
    DiskFull,
}

/// The promises that hold under a fault (`docs/guarantees.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    /// P1 and P5: no overlap, no stale write past the fence.
    Exclusion,
    /// P5 alone: overlaps are possible, stale writes past the fence are not.
    Fencing,
}

/// The options that the servers of a fault are started with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    pub(crate) clock: bool,
    pub(crate) aof: bool,
    pub(crate) tls: bool,
    pub(crate) spares: Spares,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Spares {
    #[default]
    None,
    /// One blank server for each affected server.
    Blank,
    /// One replica for each affected server.
    Replicas,
}

impl Strike {
    /// A fault of the matrix, which strikes the first servers.
    pub(crate) fn in_matrix(fault: &'static Fault) -> Self {
        Self { fault, targets: (0..fault.servers).collect(), lasts: FAULT_TIME }
    }
}

impl fmt::Display for Strike {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {:?} for {:?}", self.fault.name, self.targets, self.lasts)
    }
}

impl Needs {
    /// Returns the options that satisfy both.
    pub(crate) fn and(self, other: Self) -> Self {
        let (clock, aof) = (self.clock || other.clock, self.aof || other.aof);
        let spares = if self.spares == Spares::None { other.spares } else { self.spares };
        Self { clock, aof, tls: self.tls || other.tls, spares }
    }
}

impl Kind {
    pub(crate) fn needs(self) -> Needs {
        let none = Needs::default();
        match self {
            K::ClockForward => Needs { clock: true, ..none },
            K::KillAof | K::DiskFull => Needs { aof: true, ..none },
            K::CertificateExpired => Needs { tls: true, ..none },
            K::DnsChanged => Needs { spares: Spares::Blank, ..none },
            K::Promotion => Needs { spares: Spares::Replicas, ..none },
            _ => none,
        }
    }

    /// Returns whether its servers keep all data, and get or answer nothing until the repair.
    pub(crate) fn silences(self) -> bool {
        matches!(self, K::Stop | K::Partition | K::LostRequests | K::ClientPause)
    }

    /// Returns whether there is nothing to repair, so that the recovery begins with the strike.
    pub(crate) fn is_momentary(self) -> bool {
        matches!(
            self,
            K::KillBlank | K::KillAof | K::FlushAll | K::ScriptFlush | K::Eviction | K::Promotion
        )
    }
}

impl Fault {
    /// Returns whether random faults may include it: not if it needs spare servers, which it uses
    /// up, if it changes what clients need to connect, or if this system lacks what it needs.
    pub(crate) fn is_repeatable(&self) -> bool {
        match self.kind {
            K::Promotion | K::DnsChanged | K::PasswordRotated | K::CertificateExpired => false,
            K::ClockForward | K::Descriptors | K::DiskFull => cfg!(target_os = "linux"),
            _ => true,
        }
    }

    /// Returns whether clients detect it only with time: until then, a quorum of servers may miss
    /// locks if another fault follows.
    pub(crate) fn is_detected_late(&self) -> bool {
        matches!(self.kind, K::ClockForward | K::Eviction)
    }
}

impl Promise {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Exclusion => "P1, P5",
            Self::Fencing => "P5",
        }
    }
}

const fn fault(kind: Kind, name: &'static str, servers: usize, what: &'static str) -> Fault {
    Fault { kind, name, what, servers, promise: Promise::Exclusion, breaks_control: false }
}

/// A fault under which the control has overlaps.
const fn breaking(kind: Kind, name: &'static str, servers: usize, what: &'static str) -> Fault {
    Fault { breaks_control: true, ..fault(kind, name, servers, what) }
}

/// A fault beyond P1.
const fn beyond(kind: Kind, name: &'static str, servers: usize, what: &'static str) -> Fault {
    Fault { promise: Promise::Fencing, ..breaking(kind, name, servers, what) }
}

pub(crate) static FAULTS: [Fault; 24] = [
    breaking(K::KillBlank, "kill-blank", 3, "`SIGKILL`, and a start without data at once"),
    fault(K::KillAof, "kill-aof", 3, "`SIGKILL`, and a start from the append-only file at once"),
    fault(K::Stop, "stop", 3, "`SIGSTOP`, then `SIGCONT`"),
    fault(K::WorkerStop, "worker-stop", 0, "the subject's process: `SIGSTOP`, then `SIGCONT`"),
    fault(K::Partition, "partition", 3, "no bytes pass either way; they pass after the repair"),
    fault(K::Split, "partition-split", 5, "each worker reaches another three of the servers"),
    fault(K::LostRequests, "lost-requests", 3, "no bytes pass to the servers until the repair"),
    fault(K::LostReplies, "lost-replies", 3, "no bytes pass from the servers until the repair"),
    fault(K::Delay, "delay", 3, "replies arrive 60 ms later; a server has 100 ms for an answer"),
    fault(K::ClientPause, "client-pause", 3, "`CLIENT PAUSE … ALL`"),
    breaking(K::FlushAll, "flushall", 3, "`FLUSHALL`"),
    fault(K::ScriptFlush, "script-flush", 5, "`SCRIPT FLUSH`"),
    fault(K::MemoryFull, "memory-full", 3, "`maxmemory` below what is in use, `noeviction`"),
    beyond(K::Eviction, "eviction", 3, "all keys with a TTL are evicted (`volatile-lru`)"),
    breaking(K::Promotion, "promotion", 3, "`SIGKILL`; a replica that lags takes the address over"),
    fault(K::BusyScript, "busy-script", 3, "a script without end, then `SCRIPT KILL`"),
    fault(K::AclRevoked, "acl-revoked", 3, "the user loses all commands, then gets them back"),
    fault(
        K::PasswordRotated,
        "password-rotated",
        3,
        "another password, and connections closed; the repair is the new password in the clients' file",
    ),
    fault(
        K::CertificateExpired,
        "certificate-expired",
        3,
        "the server's certificate is replaced by an expired one, and connections closed",
    ),
    fault(
        K::DnsChanged,
        "dns-changed",
        2,
        "names lead to blank servers; the subject stays connected to the former ones until the repair",
    ),
    fault(K::ClockForward, "clock-forward", 2, "wall clock 30 s forward, then back"),
    beyond(K::ClockForward, "clock-forward-alike", 3, "the same for a majority"),
    fault(K::Descriptors, "descriptors", 3, "no file descriptor is left, and connections closed"),
    fault(K::DiskFull, "disk-full", 3, "the append-only file cannot grow (`RLIMIT_FSIZE`)"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique() {
        let names: BTreeSet<_> = FAULTS.iter().map(|fault| fault.name).collect();
        assert_eq!(names.len(), FAULTS.len());
    }

    #[test]
    fn faults_beyond_exclusion_are_few() {
        let beyond = FAULTS.iter().filter(|fault| fault.promise == Promise::Fencing);
        let beyond: Vec<_> = beyond.map(|fault| fault.name).collect();
        assert_eq!(beyond, ["eviction", "clock-forward-alike"]);
    }
}
