//! The table of all cells, and the verdict.

use std::fmt::{self, Write as _};

use crate::cell::{Cell, Client};
use crate::fault::FAULTS;
use crate::outcome::{Millis, Outcome};

/// Number of cells of this crate without its guard.
pub(crate) const UNGUARDED_CELLS: usize = 6;

/// The cells in the order of the matrix, regardless of the order in which they ended.
#[derive(Debug, Default)]
pub(crate) struct Report {
    cells: Vec<(usize, Cell, Result<Outcome, String>)>,
}

impl Report {
    pub(crate) fn add(&mut self, number: usize, cell: Cell, outcome: Result<Outcome, String>) {
        self.cells.push((number, cell, outcome));
        self.cells.sort_by_key(|&(number, ..)| number);
    }

    /// Why the run failed, if it did.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for (_, cell, outcome) in &self.cells {
            match outcome {
                Ok(outcome) => {
                    let found = outcome.problems(cell.client).into_iter();
                    problems.extend(found.map(|problem| format!("{cell}: {problem}")));
                }
                Err(problem) => problems.push(format!("{cell}: not carried out: {problem}")),
            }
        }
        for client in Client::ALL.into_iter().filter(|&client| self.is_blind(client)) {
            let name = client.name();
            problems.push(format!("the control {name} has no overlap: the harness proves nothing"));
        }
        problems
    }

    /// Returns whether a control ran under faults that break it, and nothing was detected. A single
    /// cell without the guard may show nothing, as the holder stores its lock again on servers that
    /// lost it.
    fn is_blind(&self, client: Client) -> bool {
        let control = self.cells.iter().filter(|(_, cell, _)| cell.client == client);
        let control = control.filter(|(_, cell, _)| cell.must_overlap());
        if client == Client::Unguarded && control.clone().count() < UNGUARDED_CELLS {
            return false;
        }
        let mut overlaps =
            control.map(|(_, _, outcome)| outcome.as_ref().map_or(0, |outcome| outcome.overlaps));
        overlaps.clone().next().is_some() && overlaps.all(|overlaps| overlaps == 0)
    }

    fn find(&self, like: &Cell, client: Client) -> Option<&Result<Outcome, String>> {
        let is_it = |cell: &Cell| {
            cell.client == client && cell.fault.name == like.fault.name && cell.phase == like.phase
        };
        self.cells.iter().find(|(_, cell, _)| is_it(cell)).map(|(_, _, outcome)| outcome)
    }

    /// Returns one line for each fault and phase.
    pub(crate) fn markdown(&self) -> String {
        let mut table = "| fault | phase | overlaps | control | tokens out of order \
             | stale writes refused | accepted | control | granted during the fault | control \
             | recovery, ms | control | all vote, ms |\n\
             |---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n"
            .to_owned();
        for (_, cell, outcome) in &self.cells {
            if cell.client != Client::Redlock {
                continue;
            }
            let control = self.find(cell, Client::Plain).and_then(|outcome| outcome.as_ref().ok());
            let show = |show: fn(&Outcome) -> String| control.map_or("–".into(), show);
            let _ = write!(table, "| {} | {} |", cell.fault.name, cell.phase.name());
            let Ok(outcome) = outcome else {
                let _ =
                    writeln!(table, " not carried out | {} |{}", show(overlaps), " |".repeat(9));
                continue;
            };
            let columns = [
                overlaps(outcome),
                show(overlaps),
                outcome.disorders.to_string(),
                outcome.stale_refused.to_string(),
                outcome.stale_accepted.to_string(),
                show(|outcome| outcome.stale_accepted.to_string()),
                available(outcome),
                show(available),
                recovery(outcome),
                show(recovery),
                millis(outcome.recovery.voting),
            ];
            let _ = writeln!(table, " {} |", columns.join(" | "));
        }
        table
    }
}

fn overlaps(outcome: &Outcome) -> String {
    outcome.overlaps.to_string()
}

fn available(outcome: &Outcome) -> String {
    match outcome.available {
        (_, 0) => "–".into(),
        (granted, attempts) => format!("{} %", (100 * granted + attempts / 2) / attempts),
    }
}

fn recovery(outcome: &Outcome) -> String {
    millis(outcome.recovery.granted)
}

fn millis(time: Option<std::time::Duration>) -> String {
    Millis(time).to_string().replace(" ms", "")
}

/// Totals, for a quick check of a run.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for client in Client::ALL {
            let cells = self.cells.iter().filter(|(_, cell, _)| cell.client == client);
            if cells.clone().next().is_none() {
                continue;
            }
            let outcomes: Vec<_> =
                cells.clone().filter_map(|(.., one)| one.as_ref().ok()).collect();
            let sum = |of: fn(&Outcome) -> usize| outcomes.iter().map(|one| of(one)).sum::<usize>();
            writeln!(
                f,
                "{}: {} cells, {} not carried out; {} grants, {} overlaps, {} tokens out of order, \
                 stale writes: {} refused, {} accepted",
                client.name(),
                outcomes.len(),
                cells.count() - outcomes.len(),
                sum(|one| one.grants),
                sum(|one| one.overlaps),
                sum(|one| one.disorders),
                sum(|one| one.stale_refused),
                sum(|one| one.stale_accepted),
            )?;
        }
        Ok(())
    }
}

/// Returns a table of the faults.
pub(crate) fn list() -> String {
    let mut table = "| fault | servers | what is done | promised |\n|---|--:|---|---|\n".to_owned();
    for fault in &FAULTS {
        let (name, servers, what) = (fault.name, fault.servers, fault.what);
        let _ = writeln!(table, "| {name} | {servers} | {what} | {} |", fault.promise.name());
    }
    table
}

#[cfg(test)]
mod tests {
    use tower_redlock_verify::history::{Hold, Lease};
    use tower_redlock_verify::ledger::Entries;
    use tower_redlock_verify::resource::Write;

    use super::*;
    use crate::cell::Phase;
    use crate::fault::Kind;
    use crate::outcome::Times;
    use crate::recovery::Recovery;

    fn cell(kind: Kind, client: Client) -> Cell {
        let fault = FAULTS.iter().find(|fault| fault.kind == kind).expect("a fault of each kind");
        Cell { fault, phase: Phase::Held, client }
    }

    /// Two workers hold from 10 and from `second` on, for ten each, with growing tokens.
    fn entries(second: u64) -> Entries {
        let hold = |worker: usize, from: u64, token| Hold {
            lease: Lease { worker, number: 0 },
            resource: "a".into(),
            is_shared: false,
            token: Some(token),
            asked: from - 2,
            acquired: from - 1,
            from,
            until: from + 10,
        };
        Entries { holds: vec![hold(0, 10, 1), hold(1, second, 2)], ..Entries::default() }
    }

    fn outcome(kind: Kind, entries: &Entries) -> Outcome {
        let fault = cell(kind, Client::Redlock).fault;
        Outcome::of(entries, &Times::in_cell(fault, 0..100, Recovery::IMMEDIATE))
    }

    fn problems(cell: Cell, outcome: Result<Outcome, String>) -> Vec<String> {
        let mut report = Report::default();
        report.add(0, cell, outcome);
        report.problems()
    }

    #[test]
    fn overlap_breaks_promise_of_exclusion() {
        for (kind, second, expected) in [
            (Kind::FlushAll, 30, &[][..]),
            (Kind::FlushAll, 15, &["flushall held (redlock): 1 overlaps"]),
            (Kind::Eviction, 15, &[]),
        ] {
            let outcome = outcome(kind, &entries(second));
            assert_eq!(problems(cell(kind, Client::Redlock), Ok(outcome)), expected);
        }
    }

    #[test]
    fn overlap_is_excused_only_in_its_time() {
        for (beyond_exclusion, expected) in [(15..16, 0), (10..15, 1), (16..20, 1)] {
            let mut times = Times { recovery: Recovery::IMMEDIATE, ..Times::default() };
            times.beyond_exclusion.push(beyond_exclusion);
            let outcome = Outcome::of(&entries(15), &times);
            assert_eq!(outcome.overlaps, 1);
            assert_eq!(outcome.problems(Client::Redlock).len(), expected);
        }
    }

    #[test]
    fn broken_fence_breaks_every_promise() {
        let mut entries = entries(15);
        for (asked, token) in [(13, 2), (8, 2)] {
            let lease = Lease { worker: 0, number: asked };
            entries.resource.write(&Write {
                lease,
                asked,
                acquired: asked + 1,
                token: Some(token),
            });
        }

        let found =
            problems(cell(Kind::Eviction, Client::Redlock), Ok(outcome(Kind::Eviction, &entries)));

        assert_eq!(found, ["eviction held (redlock): 1 stale writes past the fence"]);
    }

    #[test]
    fn controls_must_overlap() {
        let control = |client, kind, second, count| {
            let mut report = Report::default();
            for number in 0..count {
                report.add(number, cell(kind, client), Ok(outcome(kind, &entries(second))));
            }
            report.problems()
        };
        for (client, count) in [(Client::Unguarded, UNGUARDED_CELLS), (Client::Plain, 1)] {
            assert_eq!(control(client, Kind::FlushAll, 15, count), [""; 0]);
            assert_eq!(control(client, Kind::FlushAll, 30, count).len(), 1);
            assert_eq!(control(client, Kind::FlushAll, 30, count - 1), [""; 0]);
            // No overlap is expected under a fault that the control survives.
            assert_eq!(control(client, Kind::Stop, 30, count), [""; 0]);
        }
    }

    #[test]
    fn missing_recovery_and_cells_are_problems() {
        let mut stuck = outcome(Kind::Stop, &entries(30));
        stuck.recovery = Recovery::default();
        assert_eq!(problems(cell(Kind::Stop, Client::Redlock), Ok(stuck)).len(), 2);
        let found = problems(cell(Kind::Stop, Client::Redlock), Err("no server".into()));
        assert_eq!(found, ["stop held (redlock): not carried out: no server"]);
    }

    #[test]
    fn table_has_line_for_each_cell() {
        let mut report = Report::default();
        report.add(1, cell(Kind::Stop, Client::Redlock), Err("no server".into()));
        report.add(
            0,
            cell(Kind::FlushAll, Client::Redlock),
            Ok(outcome(Kind::FlushAll, &entries(30))),
        );
        report.add(
            2,
            cell(Kind::FlushAll, Client::Plain),
            Ok(outcome(Kind::FlushAll, &entries(15))),
        );
        let table = report.markdown();

        let lines: Vec<_> = table.lines().collect();

        assert!(lines[2].starts_with("| flushall | held | 0 | 1 |"), "{table}");
        assert!(lines[3].starts_with("| stop | held | not carried out |"), "{table}");

        let columns = |line: &str| line.matches('|').count();
        assert!(lines.iter().all(|line| columns(line) == columns(lines[0])), "{table}");
    }
}
