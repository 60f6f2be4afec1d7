//! One cell, from the start of its servers to its findings.

use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tower_redlock::time::{Clock, SystemClock};

use crate::cell::{Cell, FAULT_TIME, Phase, SERVERS, SUBJECT, WORKERS};
use crate::ledger::{Attempt, Entries, Event};
use crate::message::Order;
use crate::outcome::{Outcome, Times};
use crate::site::Site;
use crate::strike;

/// Maximum time of a step that the fault does not hinder.
const PATIENCE: Duration = Duration::from_secs(10);

/// Time after which a cell has not recovered.
const RECOVERY: Duration = Duration::from_secs(60);

/// Time from the recovery to the end, for late writes.
const SETTLE: Duration = Duration::from_millis(200);

const STEP: Duration = Duration::from_millis(10);

/// An error means that the cell was not carried out.
pub(crate) fn run(cell: Cell, runtime: &Handle) -> Result<Outcome, String> {
    let mut site = Site::start(cell, runtime)?;
    site.await_ready()?;
    strike::detach(&site)?;
    stage(&site)?;
    strike::strike(&mut site)?;
    let struck = now();
    let ends = Instant::now() + FAULT_TIME;
    proceed(&site)?;
    let mut recovery = Recovery::default();
    while Instant::now() < ends {
        thread::sleep(STEP);
        if cell.fault.kind.is_momentary() {
            recovery.look(&site, struck);
        }
    }
    let repairing = now();
    strike::repair(&mut site)?;
    let since = if cell.fault.kind.is_momentary() { struck } else { now() };
    site.order(SUBJECT, Order::Contend)?;
    let started = Instant::now();
    while started.elapsed() < RECOVERY && !recovery.is_complete() {
        thread::sleep(STEP);
        recovery.look(&site, since);
    }
    thread::sleep(SETTLE);
    site.order_all(Order::Stop)?;
    let ledger = site.control.ledger();
    for worker in 0..WORKERS {
        ledger.await_event(worker, Event::Ended, PATIENCE)?;
    }
    let times = Times { struck, repairing, recovery };
    let outcome = Outcome::of(&ledger.entries(), &times);
    Ok(outcome)
}

/// Brings the subject to the phase. In the middle of a request, its proxies hold it.
fn stage(site: &Site) -> Result<(), String> {
    let ledger = site.control.ledger();
    if site.cell.phase == Phase::Acquire {
        site.arm();
    }
    if site.cell.phase != Phase::Before {
        site.order(SUBJECT, Order::Acquire)?;
    }
    if !matches!(site.cell.phase, Phase::Before | Phase::Acquire) {
        ledger.await_event(SUBJECT, Event::Granted, PATIENCE)?;
    }
    match site.cell.phase {
        Phase::Before | Phase::Acquire | Phase::Held => {}
        Phase::Renewing => site.arm(),
        Phase::Releasing => {
            site.arm();
            site.order(SUBJECT, Order::Release)?;
        }
        Phase::After => {
            site.order(SUBJECT, Order::Release)?;
            ledger.await_event(SUBJECT, Event::Released, PATIENCE)?;
        }
    }
    if site.cell.phase.is_in_flight() {
        site.await_held()?;
    }
    Ok(())
}

/// Forwards the held data, and lets the other workers contend and every worker attempt its own
/// name.
fn proceed(site: &Site) -> Result<(), String> {
    site.open();
    for worker in (0..WORKERS).filter(|&worker| worker != SUBJECT) {
        site.order(worker, Order::Contend)?;
    }
    match site.cell.phase {
        Phase::Before => site.order(SUBJECT, Order::Acquire)?,
        Phase::Acquire | Phase::Held | Phase::Renewing => {}
        Phase::Releasing | Phase::After => site.order(SUBJECT, Order::Contend)?,
    }
    site.order_all(Order::Probe)
}

/// Times from the repair, or from the strike if there is nothing to repair; `None` for an event
/// that did not occur.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Recovery {
    /// Until every worker was granted its own name.
    pub(crate) granted: Option<Duration>,
    /// Until all servers voted, and every worker knew that.
    pub(crate) voting: Option<Duration>,
    /// Until every worker was granted the contended name, which depends on the others' holds.
    pub(crate) shared: Option<Duration>,
}

impl Recovery {
    fn look(&mut self, site: &Site, since: u64) {
        let time = |at: u64| Duration::from_nanos(at.saturating_sub(since));
        let entries = site.control.ledger().entries();
        self.granted = self.granted.or_else(|| granted(&entries, since).map(time));
        self.shared = self.shared.or_else(|| shared(&entries, since).map(time));
        let is_known = all_known(&entries, since);
        drop(entries);
        if self.voting.is_none() && is_known && site.all_vote() {
            self.voting = Some(time(now()));
        }
    }

    fn is_complete(&self) -> bool {
        self.granted.is_some() && self.shared.is_some() && self.voting.is_some()
    }
}

/// Returns when the last worker was first granted its own name, by an attempt made at `from` or
/// later.
fn granted(entries: &Entries, from: u64) -> Option<u64> {
    let is_granted = |attempt: &&Attempt| attempt.granted && attempt.from >= from;
    let granted = || entries.attempts.iter().filter(is_granted);
    latest(|worker| {
        let own = granted().filter(|attempt| attempt.worker == worker);
        own.map(|attempt| attempt.until).min()
    })
}

/// Returns when the last worker was first granted the contended name at `from` or later.
fn shared(entries: &Entries, from: u64) -> Option<u64> {
    let granted = || entries.holds.iter().filter(|hold| hold.acquired >= from);
    latest(|worker| {
        granted().filter(|hold| hold.lease.worker == worker).map(|hold| hold.acquired).min()
    })
}

fn latest(first: impl Fn(usize) -> Option<u64>) -> Option<u64> {
    (0..WORKERS).map(first).try_fold(0, |latest, first| Some(first?.max(latest)))
}

/// Returns whether the latest report of every worker says that all servers vote.
fn all_known(entries: &Entries, from: u64) -> bool {
    (0..WORKERS).all(|worker| {
        let mut own = entries.attempts.iter().rev().filter(|attempt| attempt.worker == worker);
        let last = own.next().filter(|attempt| attempt.from >= from);
        last.is_some_and(|attempt| attempt.voting.is_none_or(|voting| voting == SERVERS))
    })
}

/// Returns nanoseconds of the clock that all processes of the machine share.
fn now() -> u64 {
    SystemClock::new().now().as_nanos()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An attempt of one ms, made at `from`.
    fn attempt(worker: usize, from: u64, granted: bool, voting: Option<usize>) -> Attempt {
        Attempt { worker, from, until: from + 1, granted, voting }
    }

    fn entries(attempts: Vec<Attempt>) -> Entries {
        Entries { attempts, ..Entries::default() }
    }

    #[test]
    fn recovery_needs_every_worker() {
        let all = |granted| (0..WORKERS).map(move |worker| attempt(worker, 10, granted, None));
        let mut some = entries(all(true).skip(1).collect());
        assert_eq!(granted(&some, 10), None);
        some.attempts.extend([attempt(0, 20, false, None), attempt(0, 30, true, None)]);
        assert_eq!(granted(&some, 10), Some(31));
        // Earlier requests do not count.
        assert_eq!(granted(&some, 11), None);
    }

    #[test]
    fn last_attempts_show_voting_servers() {
        let known = |voting| {
            let attempts = (0..WORKERS).map(|worker| attempt(worker, 10, false, voting));
            entries(attempts.collect())
        };

        assert!(all_known(&known(Some(SERVERS)), 10));
        assert!(!all_known(&known(Some(SERVERS)), 11));
        assert!(!all_known(&known(Some(SERVERS - 1)), 10));
        assert!(all_known(&known(None), 10));

        let mut later = known(Some(SERVERS));
        later.attempts.push(attempt(1, 20, false, Some(2)));
        assert!(!all_known(&later, 10));
    }
}
