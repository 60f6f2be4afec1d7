//! The findings in a cell, and whether they violate a promise.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use tower_redlock_verify::checker::check;
use tower_redlock_verify::history::Hold;

use crate::cell::Cell;
use crate::fault::Promise;
use crate::ledger::Entries;
use crate::run::Recovery;

/// Maximum number of violations that are shown.
const EXAMPLES: usize = 3;

#[derive(Debug)]
pub(crate) struct Times {
    /// The fault was in effect.
    pub(crate) struck: u64,
    /// The repair began.
    pub(crate) repairing: u64,
    pub(crate) recovery: Recovery,
}

#[derive(Debug)]
pub(crate) struct Outcome {
    /// Pairs of leases that were held at the same time.
    pub(crate) overlaps: usize,
    /// Pairs of leases whose tokens do not grow.
    pub(crate) disorders: usize,
    pub(crate) grants: usize,
    pub(crate) stale_refused: usize,
    pub(crate) stale_accepted: usize,
    /// Attempts on separate names during the fault: granted, and total.
    pub(crate) available: (usize, usize),
    pub(crate) recovery: Recovery,
    slow: Vec<String>,
    examples: Vec<String>,
}

impl Outcome {
    pub(crate) fn of(entries: &Entries, times: &Times) -> Self {
        let holds = &entries.holds;
        let findings = check(holds);
        let origin = holds.iter().map(|hold| hold.asked).min().unwrap_or_default();
        let show = |kind: &str, pairs: &[(usize, usize)]| -> Vec<String> {
            let show = |&(first, second): &(usize, usize)| {
                let (first, second) = (Moments(&holds[first], origin), &holds[second]);
                format!("{kind}: {first} and {}", Moments(second, origin))
            };
            pairs.iter().take(EXAMPLES).map(show).collect()
        };
        let mut examples = show("overlap", &findings.overlaps);
        examples.extend(show("token", &findings.disorders));
        let leases = |pairs: &[(usize, usize)]| {
            let leases = pairs.iter().map(|&(one, other)| (holds[one].lease, holds[other].lease));
            leases.collect::<BTreeSet<_>>().len()
        };
        let during = entries.attempts.iter();
        let during = during.filter(|one| one.from >= times.struck && one.until <= times.repairing);
        let granted = during.clone().filter(|attempt| attempt.granted).count();
        Self {
            overlaps: leases(&findings.overlaps),
            disorders: leases(&findings.disorders),
            grants: holds.iter().map(|hold| hold.lease).collect::<BTreeSet<_>>().len(),
            stale_refused: entries.resource.stale_refused,
            stale_accepted: entries.resource.stale_accepted,
            available: (granted, during.count()),
            recovery: times.recovery,
            slow: entries.slow.clone(),
            examples,
        }
    }

    /// Returns the violations of the promises that hold in the cell. The controls have none.
    pub(crate) fn problems(&self, cell: &Cell) -> Vec<String> {
        if !cell.client.is_guarded() {
            return Vec::new();
        }
        let mut problems = self.slow.clone();
        let excludes = cell.fault.promise == Promise::Exclusion;
        let mut count = |is_promised: bool, count: usize, what: &str| {
            if is_promised && count > 0 {
                problems.push(format!("{count} {what}"));
            }
        };
        count(excludes, self.overlaps, "overlaps");
        count(true, self.disorders, "tokens out of order");
        count(true, self.stale_accepted, "stale writes past the fence");
        if self.recovery.granted.is_none() || self.recovery.shared.is_none() {
            problems.push("not every worker was granted both names after the fault".into());
        }
        if self.recovery.voting.is_none() {
            problems.push("not all servers vote after the fault".into());
        }
        problems
    }

    pub(crate) fn examples(&self) -> &[String] {
        &self.examples
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (granted, attempts) = self.available;
        write!(
            f,
            "{} grants, {} overlaps, {} tokens out of order, stale writes {} refused {} accepted, \
             {granted} of {attempts} granted during the fault, recovered after {}, voting after {}",
            self.grants,
            self.overlaps,
            self.disorders,
            self.stale_refused,
            self.stale_accepted,
            Millis(self.recovery.granted),
            Millis(self.recovery.voting),
        )
    }
}

/// A time in ms, or "never".
pub(crate) struct Millis(pub(crate) Option<Duration>);

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(time) => write!(f, "{} ms", time.as_millis()),
            None => f.write_str("never"),
        }
    }
}

/// A hold, with times in seconds since the first request.
struct Moments<'a>(&'a Hold, u64);

impl fmt::Display for Moments<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(hold, origin) = *self;
        let seconds = |at: u64| Duration::from_nanos(at.saturating_sub(origin)).as_secs_f64();
        let (from, until) = (seconds(hold.from), seconds(hold.until));
        write!(f, "worker {} from {from:.3} to {until:.3} s", hold.lease.worker)?;
        hold.token.map_or(Ok(()), |token| write!(f, " under {token}"))
    }
}
