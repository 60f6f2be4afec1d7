//! Many holders one after the other, each ended in another way: no two at a time.

use std::{
    fs,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use rustix::process::Signal;

use crate::fixture::{Fixture, Running};

/// Sites side by side, and rounds of each.
const SITES: usize = 4;
const ROUNDS: usize = 8;

/// Writes the time again and again, from a grandchild that ignores requests to stop.
const LEDGER: &str = "trap '' TERM; (trap '' TERM; while :; do date +%s%N; sleep 0.01; done) > \
                      entries-$REDLOCK_TOKEN & wait";

/// How a holder ends.
#[derive(Clone, Copy, Debug)]
enum End {
    ServersFreeze,
    Suspended,
    Killed,
    Terminated,
}

#[test]
fn no_two_commands_overlap() {
    let handed_over = AtomicUsize::new(0);
    thread::scope(|scope| {
        for number in 0..SITES {
            let handed_over = &handed_over;
            scope.spawn(move || {
                let fixture = Fixture::with_ttl("1s");
                for round in 0..ROUNDS {
                    let ends = [End::ServersFreeze, End::Suspended, End::Killed, End::Terminated];
                    let (_first, _second) =
                        one_round(&fixture, ends[(round + number) % ends.len()]);
                    fixture.thaw();
                }
                handed_over.fetch_add(check(&fixture), Ordering::Relaxed);
            });
        }
    });
    let handed_over = handed_over.into_inner();
    println!("{} rounds, {handed_over} hand-overs, no overlap", SITES * ROUNDS);
    assert!(handed_over >= SITES * ROUNDS, "{handed_over} hand-overs");
}

/// A holder ends, and the next one begins.
fn one_round(fixture: &Fixture, end: End) -> (Running, Running) {
    let before = ledgers(fixture).len();
    let first = begun(fixture, before + 1, fixture.script(&[], LEDGER));
    let second = fixture.script(&[], LEDGER);
    match end {
        End::ServersFreeze => {
            fixture.freeze();
            // Longer than the lock may last.
            thread::sleep(Duration::from_millis(1_100));
            fixture.thaw();
        }
        End::Suspended => first.signal(Signal::STOP),
        End::Killed => first.signal(Signal::KILL),
        End::Terminated => first.signal(Signal::TERM),
    }
    if matches!(end, End::Terminated) {
        // The command ignores it.
        thread::sleep(Duration::from_millis(20));
        first.signal(Signal::KILL);
    }
    (first, begun(fixture, before + 2, second))
}

/// Waits until the holder has written. One that loses its lock before, on a busy machine, is started again.
#[track_caller]
fn begun(fixture: &Fixture, count: usize, mut holder: Running) -> Running {
    let begun = std::time::Instant::now();
    while ledgers(fixture).len() < count {
        let is_late = begun.elapsed() > Duration::from_secs(60);
        assert!(!is_late, "holder {count} begins: {}", holder.output());
        if holder.has_ended() {
            holder = fixture.script(&[], LEDGER);
        }
        thread::sleep(Duration::from_millis(5));
    }
    holder
}

/// Returns the entries of each holder that wrote any, by their tokens.
fn ledgers(fixture: &Fixture) -> Vec<(u64, Vec<u128>)> {
    let mut ledgers: Vec<(u64, Vec<u128>)> = fs::read_dir(fixture.file("."))
        .unwrap()
        .filter_map(|entry| {
            let entry = entry.unwrap();
            let token = entry.file_name().to_str()?.strip_prefix("entries-")?.parse().ok()?;
            let text = fs::read_to_string(entry.path()).unwrap();
            // The last one may be cut.
            let whole = text.rsplit_once('\n')?.0;
            let entries: Vec<u128> = whole.lines().map(|line| line.parse().unwrap()).collect();
            (!entries.is_empty()).then_some((token, entries))
        })
        .collect();
    ledgers.sort();
    ledgers
}

/// Asserts that each holder began after the one before it had ended. Returns the number of pairs.
fn check(fixture: &Fixture) -> usize {
    let ledgers = ledgers(fixture);
    for pair in ledgers.windows(2) {
        let (last, first) = (pair[0].1.last().unwrap(), pair[1].1.first().unwrap());
        assert!(last < first, "token {} overlaps token {}: {last} {first}", pair[0].0, pair[1].0);
    }
    ledgers.len().saturating_sub(1)
}
