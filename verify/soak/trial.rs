//! A trial: the locks, the faults, and the expected outcome.

use std::time::Duration;

pub(crate) const SERVERS: usize = 5;

/// No more of them are faulty at once.
pub(crate) const MOST_FAULTY: usize = (SERVERS - 1) / 2;

/// What the keys of a run begin with.
pub(crate) const PREFIX: &str = "soak";

/// Of every lock. The shorter, the sooner a server is sound again; but renewals come every third of
/// it, and in between there must be time for servers to forget and for somebody to ask them.
const TTL: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
pub(crate) struct Trial {
    pub(crate) name: String,
    pub(crate) locks: LocksKind,
    pub(crate) ttl: Duration,
    pub(crate) clocks: ClockFaults,
    pub(crate) expect: Expect,
}

impl Trial {
    pub(crate) fn has_restart_guard(&self) -> bool {
        matches!(self.locks, LocksKind::Redlock(Guards { restart: true, .. }))
    }

    pub(crate) fn is_control(&self) -> bool {
        self.locks == LocksKind::Plain
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LocksKind {
    /// The algorithm as it is commonly written, and nothing else.
    Plain,
    Redlock(Guards),
}

/// Which guards the locks are built with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Guards {
    pub(crate) restart: bool,
    /// Within which time a jump of a server's clock must be noticed.
    pub(crate) clock: Option<Duration>,
}

/// How the servers' clocks jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClockFaults {
    None,
    /// Forward, and back after longer than anybody looks away.
    Later,
    /// The same, or back at once.
    AtOnce,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    /// No overlap, no disorder, and enough acquisitions to mean something.
    Clean,
    /// Overlaps, as something was left out: else these faults are harmless, and prove nothing.
    Overlaps,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Default,
    Strict,
}

impl Mode {
    pub(crate) const ALL: [Self; 2] = [Self::Default, Self::Strict];

    fn guards(self) -> Guards {
        let clock = (self == Self::Strict).then_some(Duration::from_millis(120));
        Guards { restart: true, clock }
    }

    fn clocks(self, left_out: LeftOut) -> ClockFaults {
        match self {
            _ if left_out.clock_faults => ClockFaults::None,
            Self::Default => ClockFaults::Later,
            Self::Strict => ClockFaults::AtOnce,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Strict => "strict",
        }
    }

    /// The crate's locks; without a guard where the user wants to see what it is worth.
    pub(crate) fn trial(self, left_out: LeftOut) -> Trial {
        let mut guards = self.guards();
        let mut name = self.name().to_owned();
        if left_out.restart_guard {
            guards.restart = false;
            name += ", no restart guard";
        }
        if left_out.clock_guard && guards.clock.take().is_some() {
            name += ", no clock guard";
        }
        let expect = if guards == self.guards() { Expect::Clean } else { Expect::Overlaps };
        Trial {
            name,
            locks: LocksKind::Redlock(guards),
            ttl: TTL,
            clocks: self.clocks(left_out),
            expect,
        }
    }

    /// The plain algorithm under this mode's faults.
    pub(crate) fn control(self, left_out: LeftOut) -> Trial {
        Trial {
            name: format!("control of {}", self.name()),
            locks: LocksKind::Plain,
            ttl: TTL,
            clocks: self.clocks(left_out),
            expect: Expect::Overlaps,
        }
    }
}

/// What the user wants to do without.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeftOut {
    pub(crate) restart_guard: bool,
    pub(crate) clock_guard: bool,
    pub(crate) clock_faults: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mode_is_clean_with_all_guards() {
        let nothing = LeftOut::default();
        let no_clock_guard = LeftOut { clock_guard: true, ..nothing };
        let no_restart_guard = LeftOut { restart_guard: true, ..nothing };
        assert_eq!(Mode::Strict.trial(nothing).expect, Expect::Clean);
        assert_eq!(Mode::Strict.trial(no_clock_guard).expect, Expect::Overlaps);
        assert_eq!(Mode::Default.trial(no_clock_guard).expect, Expect::Clean);
        assert_eq!(Mode::Default.trial(no_restart_guard).expect, Expect::Overlaps);
    }

    #[test]
    fn control_has_faults_of_mode() {
        let nothing = LeftOut::default();
        let no_clocks = LeftOut { clock_faults: true, ..nothing };
        for (mode, left_out, clocks) in [
            (Mode::Default, nothing, ClockFaults::Later),
            (Mode::Strict, nothing, ClockFaults::AtOnce),
            (Mode::Strict, no_clocks, ClockFaults::None),
        ] {
            let (trial, control) = (mode.trial(left_out), mode.control(left_out));
            assert_eq!((trial.clocks, control.clocks), (clocks, clocks));
            assert_eq!(trial.ttl, control.ttl);
        }
    }
}
