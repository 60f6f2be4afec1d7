//! What came out of a drive, and whether every promise held.

use std::{process::ExitCode, sync::atomic::Ordering::Relaxed};

use crate::{
    book::Book,
    cluster::Cluster,
    drive::{ORDERS, Tally},
};

/// So many calls at once take longer than any of them waits for its turn; fewer may find their
/// orders free.
const CONTENDED_FROM: usize = 240;

/// Prints counts and promises; the exit code tells whether all of them held.
pub(crate) fn print(cluster: &Cluster, book: &Book, tally: &Tally) -> ExitCode {
    let contended = tally.retries.contended.load(Relaxed);
    let unavailable = tally.retries.unavailable.load(Relaxed);
    let servers = cluster.replicas.len();
    println!();
    println!("{} calls for {ORDERS} orders, {servers} servers, {:.2?}", tally.calls, tally.took);
    println!("  {:>6} placed", tally.placed);
    println!("  {:>6} streams completed under lock, {} events", tally.tracked, tally.events);
    println!("  {contended:>6} times contended (ABORTED), retried after their RetryInfo");
    println!("  {unavailable:>6} times unavailable (UNAVAILABLE), retried likewise");
    println!("  {:>6} outcome unknown: lock lost (UNKNOWN)", tally.unknown);
    println!("  {:>6} failed", tally.failed);
    if let Some(status) = &tally.failure {
        println!("         the first: {status}");
    }

    let overlaps = book.overlaps();
    let stale = book.stale_writes();
    let (lines, ordered) = book.ordered();
    let taken = book.taken();
    let (least, most) = (tally.quantity, tally.quantity + tally.perhaps);
    let is_right = (least..=most).contains(&ordered) && (ordered..=most).contains(&taken);
    let pending = cluster.pending_releases();
    let all = tally.ended() == tally.calls as u64 && tally.failed == 0;
    let mut promises = vec![
        (all, format!("every call came to its end: {} failed", tally.failed)),
        (tally.placed > 0, format!("lines were placed: {}", tally.placed)),
        (tally.tracked > 0, format!("streams were completed: {}", tally.tracked)),
        (overlaps == 0, format!("no two were at one order or item at once: {overlaps} overlaps")),
        (tally.unsteady == 0, format!("no order changed under a stream: {} did", tally.unsteady)),
        (is_right, format!("the books are right: {lines} lines with {ordered}, {taken} taken")),
        (stale == 0, format!("tokens grew with every write: {stale} stale")),
        (pending == 0, format!("every lock was given back: {pending} releases pending")),
    ];
    if tally.calls >= CONTENDED_FROM {
        promises.push((contended > 0, format!("some were contended: {contended} times")));
    }
    if let Some(left) = cluster.keys_left() {
        promises.push((left == 0, format!("no key is left on a node: {left}")));
    }
    for (held, promise) in &promises {
        println!("{} {promise}", if *held { "ok    " } else { "BROKEN" });
    }
    if promises.iter().all(|(held, _)| *held) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
