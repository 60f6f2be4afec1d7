//! What came out, and whether every promise held.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::ExitCode,
};

use crate::{
    fleet::NAMES,
    replica::PERIOD,
    said::Moment,
    table::{Mishap, Run, Table},
};

/// Prints counts and promises; the exit code tells whether all of them held. Without `check`,
/// nobody can tell how many ticks there had to be, nor that there was time for a mishap.
pub(crate) fn print(table: &Table, keys_left: Option<usize>, check: bool) -> ExitCode {
    let mut runs: Vec<&Run> = table.runs.iter().collect();
    runs.sort_by_key(|run| run.began);
    let ticks: BTreeSet<u64> = runs.iter().map(|run| run.tick).collect();
    let came = came(&ticks);
    let (ran, twice) = (ticks.len(), runs.len() - ticks.len());
    let broken_off = runs.iter().filter(|run| run.ended.is_none()).count();
    let (overlaps, backward) = (overlaps(&runs), backward(&runs));
    let mut by_replica = BTreeMap::new();
    for run in &runs {
        *by_replica.entry(run.replica).or_insert(0) += 1;
    }

    println!();
    println!("{came} ticks");
    println!("  {ran:>6} ran");
    for (replica, runs) in by_replica {
        println!("  {runs:>6} by {}", NAMES[replica]);
    }
    println!("  {broken_off:>6} runs broken off");
    println!("  {twice:>6} ran twice");
    println!("  {overlaps:>6} overlaps");
    println!("  {backward:>6} tokens out of order");

    let mut promises = vec![
        (twice == 0, format!("no tick ran twice: {twice} did")),
        (overlaps == 0, format!("no two runs at once: {overlaps} overlaps")),
        (backward == 0, format!("tokens grew from run to run: {backward} did not")),
    ];
    if check {
        let others = table.mishaps.iter().filter(|mishap| others_ran(mishap, &runs)).count();
        let back = table.mishaps.iter().filter(|mishap| ran_again(mishap, &runs)).count();
        promises.extend([
            // Those that are lost came while the lock of the dead was still held.
            (10 * ran >= 8 * came, format!("ticks ran: {ran} of {came}")),
            (others == 1, format!("others went on without the one that was killed: {others}")),
            (back == 1, format!("back and alone, it ran the ticks: {back}")),
        ]);
    }
    if let Some(left) = keys_left {
        promises.push((left == 0, format!("no key is left on a node: {left}")));
    }
    for (held, promise) in &promises {
        println!("{} {promise}", if *held { "ok    " } else { "BROKEN" });
    }
    if promises.iter().all(|(held, _)| *held) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// How many ticks came from the first that ran to the last.
fn came(ticks: &BTreeSet<u64>) -> usize {
    let (Some(first), Some(last)) = (ticks.first(), ticks.last()) else { return 0 };
    usize::try_from(u128::from(last - first) / PERIOD.as_millis()).unwrap_or(usize::MAX) + 1
}

/// How many runs began before an earlier one had ended. One that was broken off is taken for as long
/// as it is known of: its begin.
fn overlaps(runs: &[&Run]) -> usize {
    let (mut until, mut overlaps) = (0, 0);
    for run in runs {
        overlaps += usize::from(run.began < until);
        until = until.max(run.ended.unwrap_or(run.began));
    }
    overlaps
}

fn backward(runs: &[&Run]) -> usize {
    runs.windows(2).filter(|pair| pair[1].token <= pair[0].token).count()
}

fn others_ran(mishap: &Mishap, runs: &[&Run]) -> bool {
    let until = mishap.restarted.unwrap_or(Moment::MAX);
    let mut away = runs.iter().filter(|run| mishap.killed < run.began && run.began < until);
    away.any(|run| run.replica != mishap.replica)
}

fn ran_again(mishap: &Mishap, runs: &[&Run]) -> bool {
    let Some(alone) = mishap.left_alone else { return false };
    runs.iter().any(|run| run.replica == mishap.replica && run.began > alone)
}
