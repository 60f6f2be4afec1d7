//! The outcome as tables.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::outcome::{Outcome, Row};
use crate::plan::Kind;
use crate::servers::Name;
use tower_redlock_verify::checker::{check, examples, leases, longest_gap};
use tower_redlock_verify::history::Hold;

/// The results of the run for display.
pub(crate) struct Report<'a>(pub(crate) &'a Outcome);

/// Rows of the table: failovers alone by name and kind, and those within a probation by name.
type Group = (bool, Name, Option<Kind>);

/// The counts of a group.
#[derive(Debug, Default)]
struct Sums {
    named: Vec<Duration>,
    connected: Vec<Duration>,
    voting: Vec<Duration>,
    gaps: Vec<Duration>,
    overlaps: usize,
    disorders: usize,
    control: usize,
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome { rows, holds, control, time, .. } = self.0;
        self.totals(f)?;
        writeln!(
            f,
            "\n| failover | count | named, s | connected, s | voting, s | longest gap, s \
             | overlaps | tokens out of order | overlaps of the control |\n\
             |---|--:|--:|--:|--:|--:|--:|--:|--:|"
        )?;
        for ((_, name, kind), sums) in self.groups() {
            match kind {
                Some(kind) => write!(f, "| {}, {} ", name.as_str(), kind.as_str())?,
                None => write!(f, "| {}, one of two within a probation ", name.as_str())?,
            }
            let Sums { named, connected, voting, gaps, .. } = &sums;
            write!(f, "| {} ", named.len())?;
            for times in [named, connected, voting, gaps] {
                write!(f, "| {} ", Spread(times))?;
            }
            let control = match name {
                Name::Sentinel => sums.control.to_string(),
                Name::Cluster => "–".into(),
            };
            writeln!(f, "| {} | {} | {control} |", sums.overlaps, sums.disorders)?;
        }
        writeln!(
            f,
            "\nmedian / maximum of the times, of {} failovers in {:.0?}",
            rows.len(),
            time
        )?;
        let quiet = rows.windows(2).filter(|pair| !pair[1].is_within_probation);
        let quiet = quiet.map(|pair| longest_gap(holds, pair[0].voting, pair[1].struck));
        writeln!(f, "longest gap without a failover: {:.2?}", quiet.max().unwrap_or_default())?;
        for example in examples(holds, &check(holds)) {
            writeln!(f, "{example}")?;
        }
        if let Some(example) = examples(control, &check(control)).first() {
            writeln!(f, "the control: {example}")?;
        }
        Ok(())
    }
}

impl Report<'_> {
    fn totals(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome { holds, control, .. } = self.0;
        let names = "client | acquisitions | overlapping holds | tokens out of order";
        writeln!(f, "| {names} |\n|---|--:|--:|--:|")?;
        let findings = check(holds);
        let (overlaps, disorders) = (findings.overlaps.len(), findings.disorders.len());
        writeln!(f, "| tower-redlock | {} | {overlaps} | {disorders} |", leases(holds))?;
        let overlaps = check(control).overlaps.len();
        writeln!(f, "| control | {} | {overlaps} | no tokens |", leases(control))
    }

    fn groups(&self) -> BTreeMap<Group, Sums> {
        let Outcome { rows, holds, control, .. } = self.0;
        let (findings, control_findings) = (check(holds), check(control));
        let seconds = |pairs: &[(usize, usize)], holds: &[Hold]| {
            pairs.iter().map(|&(_, second)| holds[second].acquired).collect::<Vec<_>>()
        };
        let overlaps = seconds(&findings.overlaps, holds);
        let disorders = seconds(&findings.disorders, holds);
        let control = seconds(&control_findings.overlaps, control);
        let mut groups: BTreeMap<Group, Sums> = BTreeMap::new();
        for (at, row) in rows.iter().enumerate() {
            let next = rows.get(at + 1);
            let is_pair = row.is_within_probation || next.is_some_and(|it| it.is_within_probation);
            let kind = (!is_pair).then_some(row.planned.kind);
            let sums = groups.entry((is_pair, row.planned.name, kind)).or_default();
            sums.named.push(row.until(row.named));
            sums.connected.push(row.until(row.connected));
            sums.voting.push(row.until(row.voting));
            sums.gaps.push(longest_gap(holds, row.struck, row.voting));
            // Violations found before the next failover count for this one.
            let count = |moments: &[u64], next: Option<&Row>| {
                let until = next.map_or(u64::MAX, |next| next.struck);
                moments.iter().filter(|&&it| row.struck <= it && it < until).count()
            };
            sums.overlaps += count(&overlaps, next);
            sums.disorders += count(&disorders, next);
            // The control uses only the node behind Sentinels.
            if row.planned.name == Name::Sentinel {
                let next = rows[at + 1..].iter().find(|row| row.planned.name == Name::Sentinel);
                sums.control += count(&control, next);
            }
        }
        groups
    }
}

/// Median and maximum, in seconds.
struct Spread<'a>(&'a [Duration]);

impl fmt::Display for Spread<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sorted = self.0.to_vec();
        sorted.sort_unstable();
        let at = |index: usize| sorted.get(index).copied().unwrap_or_default().as_secs_f64();
        write!(f, "{:.2} / {:.2}", at(sorted.len() / 2), at(sorted.len().saturating_sub(1)))
    }
}
