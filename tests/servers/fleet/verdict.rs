//! Checks of the lines of all replicas.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use tower_redlock::time::Timestamp;

use super::{
    journal::{Line, LineKind, Run},
    replica::PERIOD,
    replicas::Freeze,
};

#[derive(Debug, Default)]
pub(super) struct Verdict {
    /// From the first tick that ran to the last.
    ticks: usize,
    started: usize,
    ended: usize,
    by_replica: BTreeMap<usize, usize>,
    /// Starts of a tick after its first.
    again: usize,
    overlaps: usize,
    /// Number of starts whose token is not above the previous start's token.
    backward: usize,
    late_polls: usize,
    /// Runs that were frozen past the end of their lock, and the number of them that continued.
    frozen: usize,
    went_on: usize,
    /// Runs that were interrupted by a kill.
    killed: usize,
    /// Starts of other runs while a replica was frozen.
    meanwhile: usize,
    /// Lines that a check of tokens would have rejected.
    stale: usize,
}

/// The lines of one run.
#[derive(Debug)]
struct RunRecord {
    run: Run,
    start: Timestamp,
    end: Option<Timestamp>,
    polls: Vec<(Timestamp, Timestamp)>,
}

impl Verdict {
    pub(super) fn of(lines: &[Line], freezes: &[Freeze]) -> Self {
        let mut runs = run_records(lines);
        runs.sort_by_key(|run| run.start);
        let ticks: BTreeSet<u64> = runs.iter().map(|run| run.run.tick).collect();
        let span = ticks.last().unwrap_or(&0) - ticks.first().unwrap_or(&0);
        let count = |what| lines.iter().filter(|line| line.what == what).count();
        let mut verdict = Self {
            ticks: usize::try_from(u128::from(span) / PERIOD.as_millis()).unwrap() + 1,
            started: ticks.len(),
            ended: count(LineKind::End),
            again: runs.len() - ticks.len(),
            backward: runs.windows(2).filter(|run| run[1].run.token <= run[0].run.token).count(),
            late_polls: count(LineKind::LatePoll),
            overlaps: overlaps(&runs, freezes),
            stale: stale(lines),
            killed: runs.iter().filter(|run| run.end.is_none()).count(),
            ..Self::default()
        };
        for run in &runs {
            *verdict.by_replica.entry(run.run.replica).or_default() += 1;
        }
        for freeze in freezes {
            let was_in = |run: &&RunRecord| {
                let ended_before = run.end.is_some_and(|end| end < freeze.from);
                run.run.replica == freeze.replica && run.start < freeze.from && !ended_before
            };
            // Runs that a kill broke off are over as well: only the last one may continue.
            let Some(run) = runs.iter().rev().find(was_in) else { continue };
            let others = runs.iter().filter(|other| other.run.replica != freeze.replica);
            let meanwhile = others.filter(|run| freeze.from < run.start && run.start < freeze.to);
            verdict.frozen += 1;
            verdict.meanwhile += meanwhile.count();
            let began_after = |(from, _): &(Timestamp, Timestamp)| *from > freeze.to;
            verdict.went_on += usize::from(run.polls.iter().any(began_after));
            verdict.killed -= usize::from(run.end.is_none());
        }
        verdict
    }

    #[track_caller]
    pub(super) fn check(&self) {
        let Self { again, overlaps, backward, late_polls, went_on, .. } = *self;
        assert_eq!([again, overlaps, backward, late_polls, went_on], [0; 5], "{self}");
        assert!(2 * self.started >= self.ticks, "too few ticks were started: {self}");
        assert!(self.by_replica.len() == 3, "each replica ran ticks: {self}");
        assert!(self.killed > 0, "a kill hit a run: {self}");
        assert!(self.frozen >= 2 && self.meanwhile >= self.frozen, "freezes hit runs: {self}");
    }
}

fn run_records(lines: &[Line]) -> Vec<RunRecord> {
    // By token and tick, as a tick that is started twice has two runs.
    let mut runs: BTreeMap<Run, RunRecord> = BTreeMap::new();
    for start in lines.iter().filter(|line| line.what == LineKind::Start) {
        let run_records =
            RunRecord { run: start.run, start: start.from, end: None, polls: Vec::new() };
        assert!(
            runs.insert(start.run, run_records).is_none(),
            "started twice with one token: {start:?}"
        );
    }
    for line in lines {
        let Some(run) = runs.get_mut(&line.run) else { continue };
        match line.what {
            LineKind::End => run.end = Some(line.from),
            LineKind::Poll | LineKind::LatePoll => run.polls.push((line.from, line.to)),
            LineKind::Start | LineKind::Up => {}
        }
    }
    runs.into_values().collect()
}

/// Number of runs that began before the last poll of an earlier run had ended.
fn overlaps(runs: &[RunRecord], freezes: &[Freeze]) -> usize {
    let frozen_in = |run: &Run, (from, to): (Timestamp, Timestamp)| {
        let mut of_replica = freezes.iter().filter(|freeze| freeze.replica == run.replica);
        of_replica.any(|freeze| from <= freeze.to && freeze.to <= to)
    };
    let (mut until, mut overlaps) = (Timestamp::ZERO, 0);
    for run in runs {
        overlaps += usize::from(run.start < until);
        let polls = run.polls.iter();
        let ends = polls.map(|&(from, to)| if frozen_in(&run.run, (from, to)) { from } else { to });
        until = ends.chain([until, run.start]).max().unwrap_or(until);
    }
    overlaps
}

/// Number of lines after a line with a greater token.
fn stale(lines: &[Line]) -> usize {
    let (mut newest, mut stale) = (0, 0);
    for line in lines.iter().filter(|line| matches!(line.what, LineKind::Start | LineKind::End)) {
        stale += usize::from(line.run.token < newest);
        newest = newest.max(line.run.token);
    }
    stale
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ticks, started, ended, again, overlaps, backward, .. } = self;
        writeln!(
            f,
            "{ticks} ticks: {started} started, {ended} ended; by replica: {:?}",
            self.by_replica
        )?;
        writeln!(
            f,
            "started again: {again}; overlaps: {overlaps}; tokens out of order: {backward}"
        )?;
        writeln!(f, "polls that began too late: {}; stale lines: {}", self.late_polls, self.stale)?;
        let (frozen, meanwhile) = (self.frozen, self.meanwhile);
        write!(
            f,
            "killed in a run: {}; frozen in a run: {frozen}, of which went on: {}; \
             runs of others meanwhile: {meanwhile}",
            self.killed, self.went_on
        )
    }
}
