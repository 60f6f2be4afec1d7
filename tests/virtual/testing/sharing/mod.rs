//! Readers beside each other, and never beside a writer.

mod downgrade;
mod fairness;
mod max_hold;
mod nested;
mod readers;
mod writers;

use tower_redlock::{Lock, LockError};

use crate::durations::MS;
use crate::fixture::Fixture;

/// Returns a downgraded lock, and lets the nodes answer.
fn downgrade<const N: usize>(fixture: &Fixture<N>, lock: Lock) -> Result<Lock, LockError> {
    let downgraded = lock.downgrade();
    fixture.clock.settle();
    downgraded
}

/// Reads in process 0, one reader after the other, each before the former one ends, until one is refused. Returns
/// the last one.
fn read_on<const N: usize>(fixture: &Fixture<N>, mut reader: Lock) -> Lock {
    for _ in 0..50 {
        fixture.clock.advance(100 * MS);
        match fixture.read(0) {
            Ok(next) => drop(std::mem::replace(&mut reader, next)),
            Err(_) => break,
        }
    }
    reader
}
