//! Fates of ticks that do not run: they are reported once a majority stores that this replica does it.

use std::{sync::Arc, time::Duration};

use super::{
    super::{MissReason, claims::millis},
    env::MissedTicks,
};
use crate::{
    protocol::TickFates,
    schedule::{Schedule, WallTime},
};

/// Maximum number of missed ticks that are looked at one by one.
pub(super) const MAX_COUNTED: usize = 1_000;

/// Fates of ticks that are to be reported.
#[derive(Clone, Debug, Default)]
pub(super) struct Findings {
    /// A tick that is given up, and the number of its runs.
    pub(super) given_up: Option<(WallTime, u32)>,
    /// A run that did not end, its tick and its owner.
    pub(super) interrupted: Option<InterruptedRun>,
    /// Missed ticks, in their order.
    pub(super) missed: Vec<(MissedTicks, MissReason)>,
    /// Ticks that no replica could claim as the nodes had lost their claims.
    pub(super) lost: Option<LostTicks>,
}

/// What was found under a claim that too few nodes confirmed.
#[derive(Debug)]
pub(super) struct UnreportedFindings {
    /// The tokens of that claim, and of those that were made when it counted and that say the same. If one of them
    /// counts, the ticks are taken as reported.
    pub(super) under: Vec<u64>,
    pub(super) findings: Findings,
}

/// Ticks that no replica could claim: a majority of the nodes was in probation, as it had lost its claims or
/// was new.
#[derive(Clone, Debug)]
pub(super) struct LostTicks {
    pub(super) ticks: MissedTicks,
    pub(super) why: MissReason,
    /// Until when claims were lost.
    pub(super) until: WallTime,
}

/// A run that did not end.
#[derive(Clone, Debug)]
pub(super) struct InterruptedRun {
    pub(super) tick: WallTime,
    pub(super) owner: Option<Arc<str>>,
    /// It was reported when it broke off here, or is found in the history.
    pub(super) is_reported: bool,
}

impl Findings {
    pub(super) fn is_empty(&self) -> bool {
        self.until().is_none() && self.lost.is_none()
    }

    /// Adds them to what was reported, in a claim with this token.
    pub(super) fn add_to(&self, mut fates: TickFates, token: u64) -> TickFates {
        if !self.is_empty() {
            fates.told_under = token;
        }
        // A lost tick that is reported does not run either, also where later answers show less loss.
        let lost = self.lost.as_ref().map(|lost| lost.ticks.last);
        fates.told = fates.told.max(self.until().max(lost).map_or(Duration::ZERO, millis));
        let lost_until = self.lost.as_ref().map_or(Duration::ZERO, |lost| millis(lost.until));
        fates.lost_until = fates.lost_until.max(lost_until);
        fates
    }

    /// Returns whether a run did not end: also the last one of a tick that is given up.
    pub(super) fn has_interrupted(&self) -> bool {
        self.interrupted.is_some() || self.given_up.is_some()
    }

    /// The newest of the ticks, without lost ones.
    pub(super) fn until(&self) -> Option<WallTime> {
        let given_up = self.given_up.map(|(tick, _)| tick);
        let interrupted = self.interrupted.as_ref().map(|run| run.tick);
        let missed = self.missed.iter().map(|(missed, _)| missed.last).max();
        given_up.max(interrupted).max(missed)
    }
}

/// Returns the ticks of a schedule strictly after `from` and not after `until`.
pub(super) fn count_ticks(
    schedule: &Schedule,
    from: WallTime,
    until: WallTime,
) -> Option<MissedTicks> {
    let mut ticks = schedule.ticks(from, until);
    let first = ticks.next()?;
    let last = ticks.next_back().unwrap_or(first);
    let count = schedule.ticks(from, last).take(MAX_COUNTED).count() as u64;
    Some(MissedTicks { count, at_least: false, first, last })
}
