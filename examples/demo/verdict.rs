//! What came out of a drive, and whether every promise held.

use std::process::ExitCode;

use crate::{
    Demo,
    drive::Tally,
    job,
    ledger::{ACCOUNTS, OPENING_BALANCE},
};

/// Prints counts and promises; the exit code tells whether all of them held.
pub(crate) fn print(demo: &Demo, tally: &Tally, check: bool) -> ExitCode {
    let counts = tally.counts;
    let book = demo.report.book();
    println!();
    println!("{} requests over {ACCOUNTS} accounts in {:.2?}", demo.progress.total, tally.took);
    println!("  {:>6} ran (200)", counts.ran);
    println!("  {:>6} of them waited for a turn, at most {:?}", counts.waited, counts.longest_wait);
    println!("  {:>6} turned away: held by another (409)", counts.held);
    println!("  {:>6} turned away: no quorum, or too slow (503)", counts.unavailable);
    println!("  {:>6} outcome unknown: lock lost (500)", counts.unknown);
    println!("  {:>6} other answers", counts.other);
    println!("  {:>6} not answered", tally.unanswered);
    if let Some(error) = &tally.error {
        println!("         the first: {error}");
    }
    println!("report: {} ticks ran, {} missed, {} failed", book.ran, book.missed, book.failed);

    let overlaps = demo.ledger.overlaps() + demo.report.overlaps();
    let wrong = (1..=ACCOUNTS).filter(|id| !is_right(demo, tally, *id)).count();
    let stale = demo.ledger.stale_writes();
    let total = counts.total();
    let pending = demo.cluster.pending_releases();
    let mut promises = vec![
        (total == demo.progress.total as u64, format!("every request was answered: {total}")),
        (counts.ran > 0, format!("withdrawals ran: {}", counts.ran)),
        (overlaps == 0, format!("no two ran at once: {overlaps} overlaps")),
        (wrong == 0, format!("the ledger is right: {wrong} wrong balances")),
        (stale == 0, format!("tokens grew with every write: {stale} stale")),
        (book.repeated == 0, format!("no tick ran twice: {} did", book.repeated)),
        (pending == 0, format!("every lock was given back: {pending} releases pending")),
    ];
    if check {
        let ran = book.ran;
        promises.push((ran >= job::TICKS_TO_CHECK, format!("the report was made: {ran} times")));
    }
    if let Some(left) = demo.cluster.keys_left() {
        promises.push((left == 0, format!("no key is left on a node: {left}")));
    }
    for (held, promise) in &promises {
        println!("{} {promise}", if *held { "ok    " } else { "BROKEN" });
    }
    if promises.iter().all(|(held, _)| *held) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Each success took 1 from the account; an unknown outcome may have.
fn is_right(demo: &Demo, tally: &Tally, id: usize) -> bool {
    let (withdrawn, perhaps) = tally.withdrawn[id - 1];
    let Ok(balance) = demo.ledger.balance(id) else { return false };
    (withdrawn..=withdrawn + perhaps).contains(&(OPENING_BALANCE - balance))
}
