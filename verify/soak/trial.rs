//! A trial: the locks, the faults, and the expected outcome.

use std::time::Duration;

pub(crate) const SERVERS: usize = 5;

/// Maximum number of servers that are faulty at once.
pub(crate) const MOST_FAULTY: usize = (SERVERS - 1) / 2;

/// The prefix of the keys of a run.
pub(crate) const PREFIX: &str = "soak";

/// TTL of every lock. With a shorter TTL, a server is sound again sooner. But renewals are made
/// every third of it, and between two of them servers must have time to forget and clients time to
/// request the lock.
const TTL: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
pub(crate) struct Trial {
    pub(crate) name: String,
    pub(crate) locks: LocksKind,
    pub(crate) ttl: Duration,
    /// Whether servers' clocks jump: forward, and back after more than the interval between health
    /// checks.
    pub(crate) has_clock_faults: bool,
    pub(crate) expect: Expect,
}

impl Trial {
    /// Returns the crate's locks; without a guard if the user wants to see its effect.
    pub(crate) fn locks(left_out: LeftOut) -> Self {
        let (name, expect) = if left_out.restart_guard {
            ("default, no restart guard", Expect::Overlaps)
        } else {
            ("default", Expect::Clean)
        };
        let locks = LocksKind::Redlock { restart_guard: !left_out.restart_guard };
        Self::new(name, locks, expect, left_out)
    }

    /// Returns the plain algorithm under the same faults.
    pub(crate) fn control(left_out: LeftOut) -> Self {
        Self::new("control", LocksKind::Plain, Expect::Overlaps, left_out)
    }

    fn new(name: &str, locks: LocksKind, expect: Expect, left_out: LeftOut) -> Self {
        let has_clock_faults = !left_out.clock_faults;
        Self { name: name.into(), locks, ttl: TTL, has_clock_faults, expect }
    }

    pub(crate) fn has_restart_guard(&self) -> bool {
        matches!(self.locks, LocksKind::Redlock { restart_guard: true })
    }

    pub(crate) fn is_control(&self) -> bool {
        self.locks == LocksKind::Plain
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LocksKind {
    /// The algorithm as it is commonly implemented.
    Plain,
    Redlock {
        restart_guard: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    /// No overlap, no disorder, and enough acquisitions to be meaningful.
    Clean,
    /// Overlaps, as a guard is missing. Without overlaps, these faults are harmless and prove
    /// nothing.
    Overlaps,
}

/// The guards and faults that the user disables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeftOut {
    pub(crate) restart_guard: bool,
    pub(crate) clock_faults: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_clean_with_guard() {
        let nothing = LeftOut::default();
        let no_restart_guard = LeftOut { restart_guard: true, ..nothing };
        assert_eq!(Trial::locks(nothing).expect, Expect::Clean);
        assert_eq!(Trial::locks(no_restart_guard).expect, Expect::Overlaps);
    }

    #[test]
    fn control_has_the_same_faults() {
        for clock_faults in [false, true] {
            let left_out = LeftOut { clock_faults, ..LeftOut::default() };
            let (trial, control) = (Trial::locks(left_out), Trial::control(left_out));
            assert_eq!(trial.has_clock_faults, !clock_faults);
            assert_eq!(control.has_clock_faults, !clock_faults);
            assert_eq!(trial.ttl, control.ttl);
        }
    }
}
