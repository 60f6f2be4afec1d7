//! The findings in a cell or a random run, and whether they violate a promise.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::time::Duration;

use tower_redlock_verify::checker::{check, examples, leases};
use tower_redlock_verify::ledger::Entries;

use crate::cell::Client;
use crate::fault::{Fault, Promise};
use crate::recovery::Recovery;

/// Times of faults, in nanoseconds of the clock that all processes of the machine share.
#[derive(Debug, Default)]
pub(crate) struct Times {
    /// From the strike to the repair, if there is one fault.
    pub(crate) fault: Range<u64>,
    /// The times in which only fencing is promised.
    pub(crate) beyond_exclusion: Vec<Range<u64>>,
    pub(crate) recovery: Recovery,
}

impl Times {
    /// The times of a cell, in which one fault strikes.
    pub(crate) fn in_cell(fault: &Fault, during: Range<u64>, recovery: Recovery) -> Self {
        let mut times = Self { fault: during, beyond_exclusion: Vec::new(), recovery };
        if fault.promise == Promise::Fencing {
            times.beyond_exclusion.push(0..u64::MAX);
        }
        times
    }
}

#[derive(Debug)]
pub(crate) struct Outcome {
    /// Pairs of leases that were held at the same time.
    pub(crate) overlaps: usize,
    /// The same, of which the second began while exclusion was promised.
    broken: usize,
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
        let pairs = |pairs: &mut dyn Iterator<Item = &(usize, usize)>| {
            let pairs = pairs.map(|&(one, other)| (holds[one].lease, holds[other].lease));
            pairs.collect::<BTreeSet<_>>().len()
        };
        let is_excused =
            |begin: u64| times.beyond_exclusion.iter().any(|range| range.contains(&begin));
        let mut broken =
            findings.overlaps.iter().filter(|&&(_, second)| !is_excused(holds[second].from));
        let during = entries.attempts.iter();
        let during =
            during.filter(|one| one.from >= times.fault.start && one.until <= times.fault.end);
        let granted = during.clone().filter(|attempt| attempt.granted).count();
        Self {
            overlaps: pairs(&mut findings.overlaps.iter()),
            broken: pairs(&mut broken),
            disorders: pairs(&mut findings.disorders.iter()),
            grants: leases(holds),
            stale_refused: entries.resource.stale_refused,
            stale_accepted: entries.resource.stale_accepted,
            available: (granted, during.count()),
            recovery: times.recovery,
            slow: entries.slow.clone(),
            examples: examples(holds, &findings),
        }
    }

    /// Returns the violations of the promises to a client. The controls have none.
    pub(crate) fn problems(&self, client: Client) -> Vec<String> {
        if !client.is_guarded() {
            return Vec::new();
        }
        let mut problems = self.slow.clone();
        for (count, what) in [
            (self.broken, "overlaps"),
            (self.disorders, "tokens out of order"),
            (self.stale_accepted, "stale writes past the fence"),
        ] {
            if count > 0 {
                problems.push(format!("{count} {what}"));
            }
        }
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
            "{} grants, {} overlaps, {} tokens out of order, stale writes {} refused {} accepted, ",
            self.grants, self.overlaps, self.disorders, self.stale_refused, self.stale_accepted,
        )?;
        if attempts > 0 {
            write!(f, "{granted} of {attempts} granted during the fault, ")?;
        }
        let (granted, voting) = (Millis(self.recovery.granted), Millis(self.recovery.voting));
        write!(f, "recovered after {granted}, voting after {voting}")
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
