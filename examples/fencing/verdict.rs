//! What came out, and whether every promise held.

use std::process::ExitCode;

use crate::{storage::Shelf, story::Tally};

/// Prints counts and promises; the exit code tells whether all of them held.
pub(crate) fn print(rounds: usize, tally: &Tally, shelf: &Shelf) -> ExitCode {
    let Tally { timely, taken, late, turned_away, grown, stands, patient } = *tally;
    println!();
    println!("{rounds} rounds");
    println!("  {timely:>6} writes in time, {taken} taken (200)");
    println!("  {late:>6} late writes, {turned_away} turned away (412)");
    println!("  {:>6} writes stored", shelf.writes());
    let promises = [
        (timely == 3 * rounds && taken == timely, format!("writes in time are taken: {taken}")),
        (late == rounds && turned_away == late, format!("late ones are not: {turned_away}")),
        (shelf.writes() == taken, format!("nothing else was stored: {}", shelf.writes())),
        (shelf.backward() == 0, format!("no write went back: {}", shelf.backward())),
        (grown == rounds, format!("tokens grew from holder to holder: {grown}")),
        (patient == rounds, format!("no lock was given away before its time: {patient}")),
        (stands == rounds, format!("the new holder's version stands: {stands}")),
    ];
    for (held, promise) in &promises {
        println!("{} {promise}", if *held { "ok    " } else { "BROKEN" });
    }
    if promises.iter().all(|(held, _)| *held) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
