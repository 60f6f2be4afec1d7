//! Tests: the memory of all records, as the allocator counts it.

use std::{
    hint::black_box,
    time::{Duration, UNIX_EPOCH},
};

use allocation_counter::measure;
use tower_redlock::lock::LockCounts;

use super::{Contention, Holdings, LIMIT, Rates, SeenHolder};

/// Returns different names of the maximum length of a resource.
fn long(number: u64) -> String {
    format!("{number:01024}")
}

/// Records more than any of the records keeps.
fn fill(records: &mut (Rates, Contention, Holdings), rounds: u64) {
    let (rates, contention, holdings) = records;
    for round in 0..rounds {
        let at = Duration::from_secs(round);
        let mut counts = LockCounts::default();
        counts.refused = round;
        rates.sample(at, counts);
        contention.add(at, &long(round), at, round % 2 == 0);
        for token in 1..20 {
            let owner = long(token);
            let holder = SeenHolder { owner: &owner, token, is_shared: false, since: None };
            holdings.granted(&long(round % 200), &holder, (UNIX_EPOCH + at, at));
        }
    }
}

#[test]
fn memory_is_bounded() {
    let mut records =
        (Rates::new(LockCounts::default()), Contention::default(), Holdings::default());
    let empty = measure(|| {
        black_box((Rates::new(LockCounts::default()), Contention::default(), Holdings::default()));
    });
    let filling = measure(|| fill(&mut records, 600));
    let more = measure(|| fill(&mut records, 600));

    let kept = empty.bytes_total + u64::try_from(filling.bytes_current).unwrap();
    assert!(kept > LIMIT / 2, "{kept} bytes: the records are not full");
    assert!(kept <= LIMIT, "{kept} bytes");
    assert!(more.bytes_current <= 0, "{} bytes more", more.bytes_current);
}
