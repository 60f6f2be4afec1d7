//! How long it takes until everything works again after a fault.

use std::thread;
use std::time::{Duration, Instant};

use tower_redlock::time::{Clock, SystemClock};
use tower_redlock_verify::ledger::{Attempt, Entries};

use crate::cell::{SERVERS, WORKERS};
use crate::fixture::Fixture;

/// Time after which there is no recovery.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(60);

/// Interval between two checks.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_millis(10);

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
    /// Nothing was ever interrupted.
    pub(crate) const IMMEDIATE: Self = {
        let none = Some(Duration::ZERO);
        Self { granted: none, voting: none, shared: none }
    };

    /// Waits until everything works again after the time `since`, or the timeout.
    pub(crate) fn complete(&mut self, fixture: &Fixture, since: u64) -> Result<(), String> {
        let started = Instant::now();
        while started.elapsed() < RECOVERY_TIMEOUT && !self.is_complete() {
            thread::sleep(CHECK_INTERVAL);
            fixture.driver.check()?;
            self.update(fixture, since);
        }
        Ok(())
    }

    /// Records what works again.
    pub(crate) fn update(&mut self, fixture: &Fixture, since: u64) {
        let time = |at: u64| Duration::from_nanos(at.saturating_sub(since));
        let entries = fixture.driver.ledger().entries();
        self.granted = self.granted.or_else(|| granted(&entries, since).map(time));
        self.shared = self.shared.or_else(|| shared(&entries, since).map(time));
        let is_known = all_known(&entries, since);
        drop(entries);
        if self.voting.is_none() && is_known && fixture.all_vote() {
            self.voting = Some(time(now()));
        }
    }

    /// Returns the longer one of each time.
    pub(crate) fn longest(self, other: Self) -> Self {
        let longest =
            |one: Option<Duration>, other| one.zip(other).map(|(one, other)| one.max(other));
        Self {
            granted: longest(self.granted, other.granted),
            voting: longest(self.voting, other.voting),
            shared: longest(self.shared, other.shared),
        }
    }

    pub(crate) fn is_complete(&self) -> bool {
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
pub(crate) fn now() -> u64 {
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
