//! The results of the trials: a table and a verdict.

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::time::Duration;

use crate::injector::Tally;
use crate::trial::{Expect, LocksKind, Trial};
use tower_redlock_verify::checker::{Findings, check};
use tower_redlock_verify::history::Hold;

/// Minimum number of acquisitions per second. With fewer, the locks may have kept their promises by
/// being idle.
const LEAST_RATE: f64 = 5.0;

/// Maximum number of violations that are shown in full.
const EXAMPLES: usize = 5;

#[derive(Debug)]
pub(crate) struct Outcome {
    time: Duration,
    tally: Tally,
    acquisitions: usize,
    /// How many of them are of slots, and how many are shared.
    slots: usize,
    shared: usize,
    findings: Findings,
    examples: Vec<String>,
}

#[derive(Debug, Default)]
pub(crate) struct Report {
    outcomes: Vec<(Trial, Outcome)>,
}

impl Outcome {
    pub(crate) fn of(holds: &[Hold], tally: Tally, time: Duration) -> Self {
        let findings = check(holds);
        let leases = |is_wanted: &dyn Fn(&Hold) -> bool| {
            let holds = holds.iter().filter(|hold| is_wanted(hold));
            holds.map(|hold| hold.lease).collect::<HashSet<_>>().len()
        };
        let acquisitions = leases(&|_| true);
        let slots = leases(&|hold| hold.resource.starts_with("slot:"));
        let shared = leases(&|hold| hold.is_shared);
        let origin = holds.iter().map(|hold| hold.asked).min().unwrap_or_default();
        let show = |kind: &str, pairs: &[(usize, usize)]| {
            let show = |&(first, second): &(usize, usize)| {
                let (first, second) = (Moments(&holds[first], origin), &holds[second]);
                format!("{kind} on {}: {first} and {}", second.resource, Moments(second, origin))
            };
            pairs.iter().take(EXAMPLES).map(show).collect::<Vec<_>>()
        };
        let mut examples = show("overlap", &findings.overlaps);
        examples.extend(show("disorder", &findings.disorders));
        Self { time, tally, acquisitions, slots, shared, findings, examples }
    }

    fn problems(&self, trial: &Trial) -> Vec<String> {
        let mut problems = Vec::new();
        let mut problem = |what: String| problems.push(format!("{}: {what}", trial.name));
        let (overlaps, disorders) = (self.findings.overlaps.len(), self.findings.disorders.len());
        match trial.expect {
            Expect::Clean => {
                if overlaps > 0 {
                    problem(format!("{overlaps} overlapping holds"));
                }
                if disorders > 0 {
                    problem(format!("{disorders} tokens out of order"));
                }
                if self.slots == 0 {
                    problem("no slot was acquired; fewer than 4 tasks have none".into());
                }
                if self.shared == 0 {
                    problem("no shared lock was acquired; fewer than 2 tasks have none".into());
                }
                if self.rate() < LEAST_RATE {
                    problem(format!("only {:.1} acquisitions a second", self.rate()));
                }
            }
            Expect::Overlaps if overlaps == 0 => {
                problem("no overlap: these faults prove nothing".into());
            }
            Expect::Overlaps => {}
        }
        problems
    }

    fn rate(&self) -> f64 {
        f64::from(u32::try_from(self.acquisitions).unwrap_or(u32::MAX)) / self.time.as_secs_f64()
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { put_off, failed, .. } = &self.tally;
        write!(f, "{} faults, {put_off} put off, {failed} failed", self.tally.total())?;
        let Self { slots, shared, .. } = self;
        let rate = self.rate();
        write!(
            f,
            "; {rate:.0} acquisitions a second, {slots} of slots and {shared} shared in all"
        )?;
        self.examples.iter().try_for_each(|example| write!(f, "\n  {example}"))
    }
}

impl Report {
    pub(crate) fn add(&mut self, trial: &Trial, outcome: Outcome) {
        self.outcomes.push((trial.clone(), outcome));
    }

    /// Returns why the run failed, if it did.
    pub(crate) fn problems(&self) -> Vec<String> {
        self.outcomes.iter().flat_map(|(trial, outcome)| outcome.problems(trial)).collect()
    }

    fn faults(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = self.outcomes.iter().flat_map(|(_, outcome)| outcome.tally.done.keys());
        let kinds: BTreeSet<_> = kinds.collect();
        let names: Vec<_> = self.outcomes.iter().map(|(trial, _)| trial.name.as_str()).collect();
        writeln!(f, "| fault | {} |", names.join(" | "))?;
        writeln!(f, "|---|{}", "--:|".repeat(names.len()))?;
        for kind in kinds {
            write!(f, "| {kind} |")?;
            for (_, outcome) in &self.outcomes {
                write!(f, " {} |", outcome.tally.done.get(kind).unwrap_or(&0))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = "locks | seconds | faults | acquisitions | overlapping holds";
        writeln!(f, "| {names} | tokens out of order |\n|---|--:|--:|--:|--:|--:|")?;
        for (trial, outcome) in &self.outcomes {
            let (seconds, faults) = (outcome.time.as_secs(), outcome.tally.total());
            let (name, acquisitions) = (&trial.name, outcome.acquisitions);
            let overlaps = outcome.findings.overlaps.len();
            let disorders = match trial.locks {
                LocksKind::Plain => "no tokens".into(),
                LocksKind::Redlock { .. } => outcome.findings.disorders.len().to_string(),
            };
            write!(f, "| {name} | {seconds} | {faults} | {acquisitions} | {overlaps} ")?;
            writeln!(f, "| {disorders} |")?;
        }
        writeln!(f)?;
        self.faults(f)
    }
}

/// A hold, with times in seconds since the first request.
struct Moments<'a>(&'a Hold, u64);

impl fmt::Display for Moments<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(hold, origin) = *self;
        let seconds = |at: u64| Duration::from_nanos(at.saturating_sub(origin)).as_secs_f64();
        write!(
            f,
            "worker {} from {:.3} to {:.3} s",
            hold.lease.worker,
            seconds(hold.from),
            seconds(hold.until)
        )?;
        match hold.token {
            Some(token) => write!(f, " under {token}"),
            None => Ok(()),
        }
    }
}
