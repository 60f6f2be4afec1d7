//! What a job does next: a pure function of its schedule, its record and the time.
//!
//! No clock, no I/O, no randomness: every replica that asks with the same arguments gets the same
//! answer, and the number of steps is bounded, however many ticks have passed.
//!
//! Words: the *watermark* is the newest tick that was claimed. A tick above it whose start has come
//! is *pending*. Only the newest pending tick can be *on time*; every other one is *missed*.
//!
//! | part | where |
//! |---|---|
//! | the job's options: which tick is on time, how far back ticks are made up for | `rules` |
//! | what the fleet knows of the job | `record` |
//! | run, wait, or never again | `due` |
//! | schedules without ticks: a delay after each end | `after_end` |
//! | the tick that comes during a run | `overlap` |
//! | finding ticks by their starts | `timetable` |

mod after_end;
mod due;
mod overlap;
mod record;
mod rules;
#[cfg(test)]
mod tests;
mod timetable;

pub(in crate::scheduler) use self::{
    due::{Due, due, given_up},
    overlap::next_overlap,
    record::Record,
    rules::Policy,
    timetable::MissedTicks,
};
