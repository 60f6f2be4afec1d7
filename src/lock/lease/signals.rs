//! What the holder of a grant and its lease show each other without a mutex.

use std::{sync::Arc, time::Duration};

use crate::{
    lock::settings::Plan,
    metrics,
    quorum::HandOff,
    sync::atomic::{AtomicU8, AtomicU64, Ordering},
    time::Timestamp,
};

/// The facts of a grant, and what its holder and its lease show each other without a mutex: each poll of
/// guarded work reads and writes it.
///
/// # Orderings
///
/// | field | written by | ordering |
/// |---|---|---|
/// | `end` | the lease, with its state locked | sequentially consistent, with `polls` |
/// | `polls` | the holder, around each poll | sequentially consistent, with `end` |
/// | `token` | the lease, with its state locked | release, and acquire to read |
/// | `beats`, `flags` | the holder, and tasks that have its context | relaxed: nothing else is published with them |
///
/// A poll is counted before `end` is read, and a loss writes `end` before it reads `polls`. In one order of
/// all four operations, either the loss sees the poll, or the poll sees the loss.
pub(super) struct GrantSignals {
    /// Number of grants before it under its lease.
    pub(super) nth: u32,
    /// The settings of its request.
    pub(super) plan: Arc<Plan>,
    /// Start of the attempt or of the hand-off.
    pub(super) started: Timestamp,
    /// End of the maximum hold time.
    pub(super) hold_until: Timestamp,
    token: AtomicU64,
    /// End of the validity in ns, with [`ENDED`] once it is lost or released; 0 before the grant.
    end: AtomicU64,
    /// Steps of polls of guarded work so far; see [`PollGuard`].
    polls: AtomicU64,
    /// Number of heartbeats.
    beats: AtomicU64,
    /// Set of [`WorkFlag`]s.
    flags: AtomicU8,
}

/// The bit of an end that says that the grant is not held any more. Times of the clock do not reach it.
const ENDED: u64 = 1 << 63;

/// A fact about the work under a grant.
#[derive(Clone, Copy)]
pub(super) enum WorkFlag {
    /// A poll continued after the end of the validity.
    Overran = 1,
    /// No heartbeats are expected.
    Resting = 2,
    /// No polls are expected, because the work blocks a thread.
    Blocks = 4,
    /// The work has ended, and the grant is kept until its end is stored.
    Kept = 8,
    /// The work has to stop although the grant is valid. Written with the state locked.
    AskedToStop = 16,
}

impl GrantSignals {
    /// Creates the signals of an attempt, or of a grant that was handed on.
    pub(super) fn new(
        nth: u32,
        plan: &Arc<Plan>,
        started: Timestamp,
        hand_off: Option<HandOff>,
    ) -> Arc<Self> {
        let HandOff { token, until } =
            hand_off.unwrap_or(HandOff { token: 0, until: Timestamp::ZERO });
        let hold_until = started + plan.max_hold;
        Arc::new(Self {
            nth,
            plan: Arc::clone(plan),
            started,
            hold_until,
            token: AtomicU64::new(token),
            end: AtomicU64::new(held_until(until.min(hold_until))),
            polls: AtomicU64::new(0),
            beats: AtomicU64::new(0),
            flags: AtomicU8::new(0),
        })
    }

    pub(super) fn token(&self) -> u64 {
        self.token.load(Ordering::Acquire)
    }

    pub(super) fn set_token(&self, token: u64) {
        self.token.store(token, Ordering::Release);
    }

    // --- the end of the validity ---

    /// Returns the end of the validity, or [`Timestamp::ZERO`] while the grant is not held.
    pub(super) fn valid_until(&self) -> Timestamp {
        let end = self.end.load(Ordering::SeqCst);
        Timestamp::from_nanos(if end & ENDED == 0 { end } else { 0 })
    }

    /// Returns the end of the validity, also after a loss, when it may lie ahead. Zero before the grant, and
    /// after a release without a loss.
    pub(super) fn last_end(&self) -> Timestamp {
        Timestamp::from_nanos(self.end.load(Ordering::SeqCst) & !ENDED)
    }

    /// Extends the validity, at most to the end of the maximum hold time.
    pub(super) fn set_valid_until(&self, until: Timestamp) {
        let former = self.end.swap(held_until(until.min(self.hold_until)), Ordering::SeqCst);
        debug_assert!(former & ENDED == 0, "a grant that has ended is not held again");
    }

    /// Ends the grant by a loss, whose validity ends or would have ended at `end`.
    pub(super) fn lose(&self, end: Timestamp) {
        let former = self.end.swap(end.as_nanos() | ENDED, Ordering::SeqCst);
        debug_assert!(former & ENDED == 0, "a grant is lost once");
    }

    /// Ends the grant by its release. The end of a grant that was lost before stays.
    pub(super) fn release(&self) {
        if self.end.load(Ordering::SeqCst) & ENDED == 0 {
            self.end.store(ENDED, Ordering::SeqCst);
        }
    }

    // --- polls ---

    /// Enters a poll of guarded work, before the clock is read, so that a thread that checks after
    /// the end sees a poll that began in time.
    pub(super) fn enter_poll(&self) -> PollGuard<'_> {
        self.polls.fetch_add(1, Ordering::SeqCst);
        PollGuard { polls: &self.polls, steps: 1 }
    }

    /// Returns the number of steps of polls so far.
    pub(super) fn poll_steps(&self) -> u64 {
        self.polls.load(Ordering::SeqCst)
    }

    /// Returns the number of the poll under way, and whether its work has begun: before that, the
    /// poll has not read the clock.
    pub(super) fn poll_under_way(&self) -> Option<(u64, bool)> {
        let steps = self.poll_steps();
        let (poll, step) = (steps / STEPS, steps % STEPS);
        (step > 0).then_some((poll, step > 1))
    }

    // --- the work ---

    pub(super) fn heartbeat(&self) {
        self.beats.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn beats(&self) -> u64 {
        self.beats.load(Ordering::Relaxed)
    }

    /// Sets or removes a flag. Returns whether it was set before.
    pub(super) fn set_flag(&self, flag: WorkFlag, is_set: bool) -> bool {
        let bit = flag as u8;
        let former = if is_set {
            self.flags.fetch_or(bit, Ordering::Relaxed)
        } else {
            self.flags.fetch_and(!bit, Ordering::Relaxed)
        };
        former & bit != 0
    }

    pub(super) fn has_flag(&self, flag: WorkFlag) -> bool {
        self.flags.load(Ordering::Relaxed) & flag as u8 != 0
    }

    /// Counts an overrun, once: a poll that continued after the end of the validity.
    pub(super) fn note_overrun(&self) {
        if !self.set_flag(WorkFlag::Overran, true) {
            metrics::overrun();
        }
    }

    /// Returns the remaining validity at `now`.
    pub(super) fn remaining(&self, now: Timestamp) -> Duration {
        self.valid_until().saturating_duration_since(now)
    }
}

/// Returns the end of a grant that is held until then.
fn held_until(until: Timestamp) -> u64 {
    until.as_nanos().min(!ENDED)
}

/// Marks a poll of guarded work; dropping it ends the poll, also in a panic.
pub(crate) struct PollGuard<'a> {
    polls: &'a AtomicU64,
    steps: u64,
}

/// Steps of a poll: entered, begun after the clock was read, ended.
pub(super) const STEPS: u64 = 3;

impl PollGuard<'_> {
    /// Records that the clock was read, and the work is polled now.
    pub(crate) fn begin(&mut self) {
        self.steps += 1;
        self.polls.fetch_add(1, Ordering::SeqCst);
    }
}

impl Drop for PollGuard<'_> {
    fn drop(&mut self) {
        self.polls.fetch_add(STEPS - self.steps, Ordering::SeqCst);
    }
}
