//! The next step of a job (R12): a pure function of its schedule, its options, its record on the
//! nodes, and the time.
//!
//! It has no clock, I/O or randomness, so every replica that asks with the same arguments gets the
//! same answer. It is called while a replica is idle, and again under the job's lock with the
//! answers of a majority.
//!
//! Terms: the *watermark* is the newest claimed tick. A tick above it whose start has come is
//! *pending*. Only the newest pending tick can be *on time*; every other one is *missed*. A tick is
//! *settled* if it was run, or was reported as missed, given up or interrupted: the record says up
//! to which tick that is so.
//!
//! # Time
//!
//! Jobs follow one clock, from which everything stored is read: the wall clock that a quorum of
//! nodes agrees on (R9). A stored time more than a minute ahead of it was stored by a wrong clock,
//! and counts as unknown: an end becomes the start of the run; a start becomes the tick; a tick
//! becomes the previous run. If that lies ahead too, ticks up to now count as started, because it
//! is unknown which were. The next claim stores what is true. A node's floor that lies ahead is
//! ignored.
//!
//! # Lost runs
//!
//! If a job claims at the start, a run without an end was interrupted. If it claims at the end,
//! such a run is repeated up to `max_attempts` times and within `catch_up`, then given up. Under
//! the job's lock no run is in progress: the replica that has it reports the tick, and stores that
//! it did, so each is reported once for the fleet. If a majority forgot (a floor, also on new servers), a delay after the end
//! has no end to count from, and the next run is at once: new servers cannot be distinguished from
//! servers that forgot, and a whole delay may be a day.
//!
//! # Invariants
//!
//! * The watermark only rises, and so does the newest tick that was reported.
//! * No tick at or below either of them starts, except as a further attempt of the tick that the
//!   claim names.
//! * A run on demand settles no tick. A tick that comes during it is treated as the job treats
//!   ticks that come during a run; one that was pending before stays pending.
//! * Ticks up to the base of a schedule (the moment since which the job has it) do not belong to
//!   the job.
//! * The number of steps is bounded, however many ticks have passed.

use std::time::Duration;

pub use options::{Missed, Overlap};

use crate::schedule::{Schedule, WallTime};

mod options;
#[cfg(test)]
mod tests;

/// The options of a job that decide which ticks run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Which missed ticks run.
    pub missed: Missed,
    /// Maximum age of the start of a missed tick that still runs.
    pub catch_up: Duration,
    /// Time after its start for which a tick is on time. It ends early at the start of the next
    /// tick.
    pub start_within: Duration,
    /// What happens to a tick that comes during a run.
    pub overlap: Overlap,
    /// Maximum number of runs of a tick.
    pub max_attempts: u32,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            missed: Missed::default(),
            catch_up: Duration::from_secs(24 * 60 * 60),
            start_within: Duration::from_secs(60),
            overlap: Overlap::default(),
            max_attempts: 10,
        }
    }
}

impl Policy {
    /// Returns whether the newest pending tick, which starts at `start`, is on time.
    fn is_on_time(&self, start: WallTime, record: &JobRecord, now: WallTime) -> bool {
        let startable = match self.overlap {
            Overlap::Skip if record.overlap_of(start).is_some() => return false,
            Overlap::Skip => start,
            // The tick waited for the run, so it is startable from the end of the run.
            Overlap::Queue | Overlap::Stop => {
                let on_demand = record.on_demand.filter(|run| run.since <= self.latest(start));
                let ends = [record.last_end, on_demand.and_then(|run| run.ended)];
                ends.into_iter().flatten().fold(start, WallTime::max)
            }
        };
        now <= self.latest(startable)
    }

    /// Returns the latest moment at which a tick is on time that could start at `startable`.
    pub fn latest(&self, startable: WallTime) -> WallTime {
        let since_epoch = Duration::from_millis(startable.as_millis());
        WallTime::since_epoch(since_epoch.saturating_add(self.start_within))
    }

    /// Returns the earliest start of a missed tick that still runs.
    fn horizon(&self, now: WallTime) -> WallTime {
        let since_epoch = Duration::from_millis(now.as_millis());
        WallTime::since_epoch(since_epoch.saturating_sub(self.catch_up))
    }
}

/// The state of a job, as the nodes store it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRecord {
    /// The watermark: the newest tick that anyone claimed. It only rises.
    pub tick: Option<WallTime>,
    /// The end of that tick's run, by the runner's clock. `None` if it is unknown, because the run
    /// still continues or was interrupted.
    pub last_end: Option<WallTime>,
    /// The latest run on demand.
    pub on_demand: Option<OnDemandSpan>,
    /// The newest tick that was reported as missed, given up or interrupted.
    pub told: Option<WallTime>,
    /// Whether the watermark's tick must run again: its run did not end, and the job claims at the
    /// end.
    pub unfinished: bool,
    /// Number of the latest attempt at the watermark's tick, from 1.
    pub attempt: u32,
    /// Ticks up to this time count as run, because the nodes lost the claims of them.
    pub assumed_run_until: Option<WallTime>,
    /// Time since which the job has its schedule. Ticks up to this time do not belong to the job.
    pub base: WallTime,
}

impl JobRecord {
    /// Creates the record of a job that never ran.
    pub const fn new(base: WallTime) -> Self {
        Self {
            tick: None,
            last_end: None,
            on_demand: None,
            told: None,
            unfinished: false,
            attempt: 0,
            assumed_run_until: None,
            base,
        }
    }

    /// Returns the time up to which all ticks are settled.
    fn floor(&self) -> WallTime {
        let settled = self.tick.max(self.assumed_run_until).max(self.told);
        self.base.max(settled.unwrap_or(WallTime::ZERO))
    }

    /// Returns the kind of run during which a tick came that starts at `start`, as far as the record
    /// shows it.
    pub fn overlap_of(&self, start: WallTime) -> Option<OverlappedRun> {
        if self.last_end.is_some_and(|end| end >= start) {
            return Some(OverlappedRun::OfTick);
        }
        let is_during = |run: OnDemandSpan| run.since <= start && run.ended >= Some(start);
        self.on_demand.filter(|run| is_during(*run)).map(|_| OverlappedRun::OnDemand)
    }
}

/// When the latest run on demand was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnDemandSpan {
    /// Its start.
    pub since: WallTime,
    /// Its end; `None` while it runs, and after a crash.
    pub ended: Option<WallTime>,
}

/// The run during which a tick came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverlappedRun {
    /// The run of an earlier tick.
    OfTick,
    /// A run on demand.
    OnDemand,
}

/// What a job does next.
///
/// `missed` are the ticks above the watermark that are given up. Each call finds them again until
/// the record has passed them: the replica that stores that reports them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Run `tick`, which is due since `start`.
    Run {
        /// The tick.
        tick: WallTime,
        /// When it was due: the tick plus the jitter of the job.
        start: WallTime,
        /// Whether the tick was claimed before and its run interrupted.
        again: bool,
        /// The ticks that are given up.
        missed: Option<MissedTicks>,
    },
    /// Ask again at `start`, the start of `tick`.
    Wait {
        /// The tick.
        tick: WallTime,
        /// When it is due.
        start: WallTime,
        /// The ticks that are given up.
        missed: Option<MissedTicks>,
    },
    /// There is no other tick.
    Never {
        /// The ticks that are given up.
        missed: Option<MissedTicks>,
    },
}

impl Due {
    /// Returns the ticks that are given up.
    pub const fn missed(&self) -> Option<MissedTicks> {
        let (Self::Run { missed, .. } | Self::Wait { missed, .. } | Self::Never { missed }) = self;
        *missed
    }
}

/// Returns the next step of `job` at `now`, while no run of it is under way.
///
/// Called by an idle replica, and again under the job's lock with the record read there.
pub fn due(
    schedule: &Schedule,
    job: &str,
    policy: &Policy,
    record: &JobRecord,
    now: WallTime,
) -> Due {
    let times = Timetable { schedule, job };
    if let (true, Some(tick)) = (record.unfinished, record.tick) {
        return Due::Run { tick, start: times.start(tick), again: true, missed: None };
    }
    if schedule.is_after_end() {
        return due_after_end(times, record, now);
    }
    let floor = record.floor();
    let Some(newest) = times.newest_started(floor, now) else {
        // The clock may be behind the watermark.
        return wait(times, floor, None);
    };
    match choose(times, policy, record, newest, now) {
        Some(tick) => Due::Run {
            tick,
            start: times.start(tick),
            again: false,
            missed: times.given_up(floor, just_before(tick)),
        },
        None => wait(times, newest, times.given_up(floor, newest)),
    }
}

/// Returns the pending tick that runs now, if any.
fn choose(
    times: Timetable<'_>,
    policy: &Policy,
    record: &JobRecord,
    newest: WallTime,
    now: WallTime,
) -> Option<WallTime> {
    let start = times.start(newest);
    let horizon = policy.horizon(now);
    let on_time = policy.is_on_time(start, record, now);
    // Older ticks started earlier, so if the newest one is too old to run, all are.
    let made_up_for = on_time || start >= horizon;
    match policy.missed {
        Missed::Skip | Missed::RunAll { at_most: 0 } => on_time.then_some(newest),
        Missed::RunLatest => made_up_for.then_some(newest),
        Missed::RunAll { at_most } => {
            made_up_for.then(|| times.oldest(record.floor(), horizon, newest, at_most))
        }
    }
}

/// Returns the tick whose run was interrupted, once it is not repeated any more.
pub fn given_up(
    schedule: &Schedule,
    job: &str,
    policy: &Policy,
    record: &JobRecord,
    now: WallTime,
) -> Option<WallTime> {
    let tick = record.tick.filter(|_| record.unfinished)?;
    let is_late = Timetable { schedule, job }.start(tick) < policy.horizon(now);
    (is_late || record.attempt >= policy.max_attempts).then_some(tick)
}

fn wait(times: Timetable<'_>, after: WallTime, missed: Option<MissedTicks>) -> Due {
    match times.next(after) {
        Some(tick) => Due::Wait { tick, start: times.start(tick), missed },
        None => Due::Never { missed },
    }
}

/// Returns the next step of a schedule that counts from the last end. Its ticks are late, never
/// missed.
fn due_after_end(times: Timetable<'_>, record: &JobRecord, now: WallTime) -> Due {
    let missed = None;
    let end_on_demand = record.on_demand.and_then(|run| run.ended);
    let (after, end) = match record.tick {
        // A run that was interrupted counts as one that took no time.
        Some(tick) => (tick, Some(record.last_end.unwrap_or(tick)).max(end_on_demand)),
        None => (just_before(record.base), record.last_end.max(end_on_demand)),
    };
    // If it is unknown whether there was a run, the next run is not delayed, and only its tick is
    // new.
    let after = record.assumed_run_until.map_or(after, |until| after.max(until));
    let Some(tick) = times.schedule.next(after, end) else { return Due::Never { missed } };
    let start = times.start(tick);
    if start > now {
        return Due::Wait { tick, start, missed };
    }
    // A run that is late by a delay or more gets the present time as its tick. With the old tick, a
    // run that is interrupted would be followed by others at once, one for each delay that has
    // passed.
    let late = times.schedule.next(tick, Some(start)).is_some_and(|next| next <= now);
    let (tick, start) = if late { (now, now) } else { (tick, start) };
    Due::Run { tick, start, again: false, missed }
}

/// Returns the next tick during a run of `running`, and its start.
///
/// Its start is strictly after `seen`, the moment up to which starts were examined: at first the
/// one for which the run was [due], then each start that was returned. With a later
/// reading of the clock, a tick in between would go unnoticed.
pub fn next_overlap(
    schedule: &Schedule,
    job: &str,
    running: WallTime,
    seen: WallTime,
) -> Option<(WallTime, WallTime)> {
    let times = Timetable { schedule, job };
    let tick = times.first_starting_after(running, seen)?;
    Some((tick, times.start(tick)))
}

/// Maximum number of ticks examined one by one.
const MAX_STEPS: usize = 1_000;

/// Ticks that are given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissedTicks {
    /// Number of ticks, counted up to 1,000.
    pub count: u64,
    /// Whether there are more than were counted.
    pub at_least: bool,
    /// The first of those that were counted.
    pub first: WallTime,
    /// The last one.
    pub last: WallTime,
}

/// The ticks of one job, with their starts.
///
/// A start comes before the next tick, so starts are in the order of their ticks.
#[derive(Clone, Copy)]
struct Timetable<'a> {
    schedule: &'a Schedule,
    job: &'a str,
}

impl Timetable<'_> {
    fn start(self, tick: WallTime) -> WallTime {
        self.schedule.start(self.job, tick)
    }

    /// Returns the first tick strictly after `tick`.
    fn next(self, tick: WallTime) -> Option<WallTime> {
        self.schedule.ticks(tick, WallTime::MAX).next()
    }

    /// Returns the newest tick strictly after `floor` whose start is not after `at`.
    fn newest_started(self, floor: WallTime, at: WallTime) -> Option<WallTime> {
        // Of the ticks up to `at`, only the last may start after it.
        self.schedule.ticks(floor, at).rev().take(2).find(|tick| self.start(*tick) <= at)
    }

    /// Returns the first tick strictly after `floor` whose start is strictly after `at`.
    fn first_starting_after(self, floor: WallTime, at: WallTime) -> Option<WallTime> {
        let come = self.schedule.ticks(floor, at).next_back();
        come.filter(|tick| self.start(*tick) > at).or_else(|| self.next(floor.max(at)))
    }

    /// Returns the oldest of the newest `at_most` ticks strictly after `floor` up to `newest`,
    /// without those that started before `horizon`; `newest` itself in any case.
    fn oldest(
        self,
        floor: WallTime,
        horizon: WallTime,
        newest: WallTime,
        at_most: usize,
    ) -> WallTime {
        let at_most = at_most.clamp(1, MAX_STEPS);
        let Some(oldest) = self
            .first_starting_after(floor, just_before(horizon))
            .filter(|oldest| *oldest < newest)
        else {
            return newest;
        };
        let others = self.schedule.ticks(oldest, newest);
        // Forward first: a step forward is much cheaper than one back.
        if others.clone().nth(at_most - 1).is_none() {
            return oldest;
        }
        others.rev().nth(at_most - 1).unwrap_or(newest)
    }

    /// Returns the ticks strictly after `floor` and not after `until`.
    fn given_up(self, floor: WallTime, until: WallTime) -> Option<MissedTicks> {
        let mut ticks = self.schedule.ticks(floor, until);
        let first = ticks.clone().next()?;
        let counted = ticks.clone().take(MAX_STEPS + 1).count();
        Some(MissedTicks {
            count: counted.min(MAX_STEPS) as u64,
            at_least: counted > MAX_STEPS,
            first,
            last: ticks.next_back().unwrap_or(first),
        })
    }
}

/// Returns the last moment before `time`, at least the epoch.
fn just_before(time: WallTime) -> WallTime {
    WallTime::from_millis(time.as_millis().saturating_sub(1))
}
