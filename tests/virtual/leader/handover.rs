//! The time from a release to the next leader.

use std::{sync::atomic::Ordering, time::Duration};

use super::fixture::{Candidate, FOLLOWED, Fixture, TTL};
use crate::fixture::counted;

/// Maximum time of a handover without network delay.
const AT_ONCE: Duration = Duration::from_millis(10);

fn leads(candidates: &[Candidate]) -> Option<usize> {
    candidates.iter().position(|candidate| candidate.leader.is_leader())
}

/// Names of candidates.
const NAMES: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];

#[test]
fn resignation_wakes_the_next_candidate() {
    for count in [2, 3, 4, 7] {
        let fixture = Fixture::new();
        let candidates: Vec<_> =
            NAMES[..count].iter().map(|name| fixture.candidate(name)).collect();
        let _runs: Vec<_> = candidates
            .iter()
            .map(|it| fixture.run(&it.leader.clone().resign_grace(Duration::ZERO)))
            .collect();
        let mut longest = Duration::ZERO;
        for round in 0..20 {
            fixture.clock.advance(TTL + Duration::from_millis(round * 170));
            let leader = leads(&candidates).expect("a candidate leads");
            let terms = fixture.witness.terms();
            let since = tower_redlock::time::Clock::now(&fixture.clock);
            assert!(fixture.resign(&candidates[leader].leader).is_finished());
            fixture.clock.advance(AT_ONCE);
            let next = leads(&candidates);
            assert!(next.is_some(), "{count} candidates, round {round}: no candidate leads");
            assert_ne!(next, Some(leader), "the former leader leads again");
            assert_eq!(fixture.witness.terms(), terms + 1);
            longest = longest.max(fixture.witness.elected_at().saturating_duration_since(since));
        }
        println!("{count} candidates: followed within {longest:?}");
    }
}

#[test]
fn finished_work_wakes_the_next_candidate() {
    let (fixture, [a, b]) = Fixture::candidates(["a", "b"]);
    let clock = fixture.clock.clone();
    let returned = fixture.clock.spawn(a.leader.run(move |_| clock.sleep(TTL * 2)));
    fixture.clock.settle();
    let _b = fixture.run(&b.leader);
    fixture.clock.advance(TTL * 2);
    assert!(returned.is_finished());
    fixture.clock.advance(AT_ONCE);
    assert!(b.leader.is_leader());
}

#[test]
fn without_wakeups_polling_finds_the_release() {
    let (fixture, [a]) = Fixture::candidates(["a"]);
    let (redlock, _) =
        counted(&fixture.clock, &fixture.candidate("b").redlock, |builder| builder.wakeups(false));
    let other = redlock.leader("x");
    let _a = fixture.run(&a.leader.clone().resign_grace(Duration::ZERO));
    let _b = fixture.run(&other);
    fixture.clock.advance(TTL);
    assert!(fixture.resign(&a.leader).is_finished());
    fixture.clock.advance(AT_ONCE);
    assert!(!other.is_leader());
    fixture.clock.advance(FOLLOWED);
    assert!(other.is_leader());
}

/// Candidates that are woken too late make one or two more attempts, and then stand by.
#[test]
fn handover_costs_few_attempts() {
    let (fixture, [a]) = Fixture::candidates(["a"]);
    let _a = fixture.run(&a.leader.clone().resign_grace(Duration::ZERO));
    let others: Vec<_> = NAMES[1..]
        .iter()
        .map(|name| counted(&fixture.clock, &fixture.candidate(name).redlock, |builder| builder))
        .collect();
    let leaders: Vec<_> = others.iter().map(|(redlock, _)| redlock.leader("x")).collect();
    let _runs: Vec<_> = leaders.iter().map(|leader| fixture.run(leader)).collect();
    fixture.clock.advance(TTL);
    let count = || -> usize { others.iter().map(|(_, asked)| asked.load(Ordering::SeqCst)).sum() };
    let before = count();
    assert!(fixture.resign(&a.leader).is_finished());
    fixture.clock.advance(TTL / 10);
    assert_eq!(leaders.iter().filter(|leader| leader.is_leader()).count(), 1);
    let each = (count() - before).div_ceil(others.len());
    assert!(each <= 4 * fixture.nodes.len(), "{each} messages of each candidate");
}
