//! What is put to the test: which locks, under which faults, and what must come of it.

use std::time::Duration;

pub(crate) const SERVERS: usize = 5;

/// No more of them are faulty at once.
pub(crate) const MOST_FAULTY: usize = (SERVERS - 1) / 2;

/// What the keys of a run begin with.
pub(crate) const PREFIX: &str = "soak";

#[derive(Clone, Debug)]
pub(crate) struct Trial {
    pub(crate) name: String,
    pub(crate) locks: LocksKind,
    pub(crate) ttl: Duration,
    pub(crate) faults: FaultList,
    pub(crate) expect: Expect,
}

impl Trial {
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

/// Which of the faults that not every trial has are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FaultList {
    pub(crate) clocks: bool,
    /// Jumps that are taken back at once; only where clocks jump at all.
    pub(crate) flickers: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    /// No overlap, no disorder, and enough acquisitions to mean something.
    Clean,
    /// Overlaps: else the faults were harmless, and the others proved nothing.
    Overlaps,
    /// Locks without one of their guards: shown, not judged.
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Default,
    Strict,
}

impl Mode {
    fn ttl(self) -> Duration {
        match self {
            Self::Default => Duration::from_secs(1),
            Self::Strict => Duration::from_secs(2),
        }
    }

    fn guards(self) -> Guards {
        let clock = (self == Self::Strict).then_some(Duration::from_millis(250));
        Guards { restart: true, clock }
    }

    fn faults(self, clocks: bool) -> FaultList {
        FaultList { clocks, flickers: clocks && self == Self::Strict }
    }

    /// The crate's locks; without a guard where the user wants to see what it is worth.
    pub(crate) fn trial(self, left_out: LeftOut) -> Trial {
        let mut guards = self.guards();
        let mut name = match self {
            Self::Default => "default".to_owned(),
            Self::Strict => "strict".to_owned(),
        };
        if left_out.restart_guard {
            guards.restart = false;
            name += ", no restart guard";
        }
        if left_out.clock_guard && guards.clock.take().is_some() {
            name += ", no clock guard";
        }
        let expect = if guards == self.guards() { Expect::Clean } else { Expect::Nothing };
        Trial {
            name,
            locks: LocksKind::Redlock(guards),
            ttl: self.ttl(),
            faults: self.faults(!left_out.clock_faults),
            expect,
        }
    }

    /// The plain algorithm under this mode's faults.
    pub(crate) fn control(self, left_out: LeftOut) -> Trial {
        Trial {
            name: "control: plain Redlock".into(),
            locks: LocksKind::Plain,
            ttl: self.ttl(),
            faults: self.faults(!left_out.clock_faults),
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
    fn a_mode_is_judged_only_with_all_its_guards() {
        let nothing = LeftOut::default();
        let no_clock_guard = LeftOut { clock_guard: true, ..nothing };
        let no_restart_guard = LeftOut { restart_guard: true, ..nothing };
        assert_eq!(Mode::Strict.trial(nothing).expect, Expect::Clean);
        assert_eq!(Mode::Strict.trial(no_clock_guard).expect, Expect::Nothing);
        assert_eq!(Mode::Default.trial(no_clock_guard).expect, Expect::Clean);
        assert_eq!(Mode::Default.trial(no_restart_guard).expect, Expect::Nothing);
    }

    #[test]
    fn only_strict_has_jumps_that_are_taken_back_at_once() {
        let nothing = LeftOut::default();
        assert!(!Mode::Default.trial(nothing).faults.flickers);
        assert!(Mode::Strict.trial(nothing).faults.flickers);
        let no_clocks = LeftOut { clock_faults: true, ..nothing };
        assert!(!Mode::Strict.trial(no_clocks).faults.flickers);
    }
}
