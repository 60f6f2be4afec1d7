//! The runs of all replicas, and the checks of their order.

use std::collections::{BTreeMap, BTreeSet};

use super::replica::{Moment, PERIOD, Report};
use crate::stories::judge;

#[derive(Default)]
pub(crate) struct History {
    runs: Vec<Run>,
    by_token: BTreeMap<u64, usize>,
}

struct Run {
    replica: usize,
    /// Time of the tick, in ms since 1970.
    tick: u64,
    token: u64,
    began: Moment,
    /// `None` if it was interrupted.
    ended: Option<Moment>,
}

/// A replica was killed, started again, and then left alone by the others.
pub(crate) struct Mishap {
    pub(crate) replica: usize,
    pub(crate) killed: Moment,
    pub(crate) restarted: Moment,
    pub(crate) alone: Moment,
}

impl History {
    pub(crate) fn add(&mut self, replica: usize, report: Report) {
        match report {
            Report::Began { tick, token, at } => {
                self.by_token.insert(token, self.runs.len());
                self.runs.push(Run { replica, tick, token, began: at, ended: None });
            }
            Report::Ended { token, at } => {
                if let Some(run) = self.by_token.get(&token) {
                    self.runs[*run].ended = Some(at);
                }
            }
        }
    }

    #[track_caller]
    pub(crate) fn judge(&mut self, mishap: &Mishap) {
        self.runs.sort_by_key(|run| run.began);
        let runs = &self.runs;
        let ticks: BTreeSet<u64> = runs.iter().map(|run| run.tick).collect();
        let (ran, due) = (ticks.len(), due(&ticks));
        let (twice, overlaps) = (runs.len() - ran, self.overlaps());
        let backward = runs.windows(2).filter(|pair| pair[1].token <= pair[0].token).count();
        let interrupted = runs.iter().filter(|run| run.ended.is_none()).count();
        println!("{due} ticks, {} runs, {interrupted} of them interrupted", runs.len());
        judge(&[
            (twice == 0, format!("ticks that ran twice: {twice}")),
            (overlaps == 0, format!("runs that overlap: {overlaps}")),
            (backward == 0, format!("runs whose token is not above the last: {backward}")),
            // The others are due while the lock of the killed replica is still held.
            (10 * ran >= 8 * due, format!("ticks ran: {ran} of {due}")),
            (self.others_ran(mishap), "the others continued while one was dead".into()),
            (self.ran_alone(mishap), "the restarted replica ran ticks alone".into()),
        ]);
    }

    /// The number of runs that began before an earlier one had ended. The end of an interrupted run
    /// is not known; it counts as over at once.
    fn overlaps(&self) -> usize {
        let (mut until, mut overlaps) = (0, 0);
        for run in &self.runs {
            overlaps += usize::from(run.began < until);
            until = until.max(run.ended.unwrap_or(run.began));
        }
        overlaps
    }

    fn others_ran(&self, mishap: &Mishap) -> bool {
        let while_dead = mishap.killed + 1..mishap.restarted;
        let mut runs = self.runs.iter().filter(|run| while_dead.contains(&run.began));
        runs.any(|run| run.replica != mishap.replica)
    }

    fn ran_alone(&self, mishap: &Mishap) -> bool {
        let is_alone = |run: &Run| run.replica == mishap.replica && run.began > mishap.alone;
        self.runs.iter().any(is_alone)
    }
}

/// The number of ticks from the first that ran to the last.
fn due(ticks: &BTreeSet<u64>) -> usize {
    let (Some(first), Some(last)) = (ticks.first(), ticks.last()) else { return 0 };
    usize::try_from(u128::from(last - first) / PERIOD.as_millis()).unwrap_or(usize::MAX) + 1
}
