//! Crashes during a run.

use tower_redlock::{Schedule, scheduler::Claim};

use crate::scheduler::fixture::{Fixture, MS, SECOND, TTL};

const HOUR: u32 = 3600;

#[test]
fn claim_decides_whether_crash_repeats() {
    for claim in [Claim::AtStart, Claim::AtEnd] {
        let (fixture, [a, b]) = Fixture::hosts(["a", "b"]);
        let job = |host: &crate::scheduler::fixture::Host| {
            host.job("j", Schedule::every(HOUR * SECOND), 100 * SECOND).claim(claim)
        };
        let _a = a.start([job(&a)]);
        fixture.advance(HOUR * SECOND);
        assert_eq!(fixture.log.hosts(), ["a"]);
        let mut at_b = b.start([job(&b)]);
        fixture.advance(17 * SECOND + 300 * MS);
        a.crash();
        fixture.advance(TTL / 2);
        assert_eq!(fixture.log.hosts(), ["a"], "its lock is still held");
        fixture.advance(TTL / 2 + TTL / 10);
        let runs = fixture.log.entries();
        if claim == Claim::AtStart {
            assert_eq!(runs.len(), 1);
            fixture.advance(2 * HOUR * SECOND);
            assert_eq!(fixture.log.ticks(), [3_600_000, 7_200_000, 10_800_000]);
            continue;
        }
        assert_eq!(fixture.log.hosts(), ["a", "b"]);
        assert_eq!((runs[1].tick, runs[1].attempt), (runs[0].tick, 2));
        assert!(runs[1].token > runs[0].token && runs[1].lateness > 17 * SECOND);
        fixture.advance(101 * SECOND);
        assert_eq!(fixture.log.entries().len(), 2);
        let events = at_b.event_names();
        assert_eq!(
            events.iter().filter(|name| **name == "already started").count(),
            1,
            "{events:?}"
        );
        assert_eq!(events[events.len() - 1], "finished");
    }
}
