//! Switches that remove guards, for the simulation only: it has to detect the removal of each.
//!
//! Compiled with `--cfg redlock_sim` only. Other builds have the guards, as constants.

/// A guard that can be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// A quorum is a majority.
    Majority,
    /// The validity counts from the start of an attempt, and is compared with the clock as its last
    /// step.
    AcquireDeadline,
    /// A number that too few nodes accepted is raised.
    RaiseRound,
    /// A server whose clock jumped is detected.
    JumpDetection,
    /// A lease sets aside the steps of clocks that are too small to be detected.
    StepAllowance,
    /// A server that may have forgotten is in probation first.
    Probation,
    /// Nodes that start together take no token that may have been granted before.
    Floor,
    /// Sets with different nodes have different layouts.
    LayoutCheck,
    /// A set's layout has its place among the sets.
    Place,
    /// A set takes no servers while another one shows another list.
    OneList,
    /// The part of a name in braces decides alone about its set.
    Braces,
    /// An attempt ends when its nodes do not answer in time, and a connection that hangs is
    /// replaced.
    Timeouts,
    /// A process pauses while others wait for what it holds again and again.
    Turns,
    /// The same for slots.
    SlotTurns,
    /// Guarded work is not polled after the end of its lock.
    HardStop,
    /// An acquire by plain commands counts only if the second one finds the fences of the view.
    SecondCommand,
}

/// Returns whether a guard is removed.
#[cfg(not(redlock_sim))]
pub const fn is_out(_: Switch) -> bool {
    false
}

#[cfg(redlock_sim)]
pub use thread::{is_out, take_out};

#[cfg(redlock_sim)]
mod thread {
    use std::cell::Cell;

    use super::Switch;

    thread_local! {
        static OUT: Cell<Option<Switch>> = const { Cell::new(None) };
    }

    /// Returns whether a guard is removed on this thread.
    pub fn is_out(switch: Switch) -> bool {
        OUT.get() == Some(switch)
    }

    /// Removes a guard on this thread; with `None`, restores all.
    pub fn take_out(switch: Option<Switch>) {
        OUT.set(switch);
    }
}
