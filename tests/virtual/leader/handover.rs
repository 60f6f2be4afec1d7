//! The time from a release to the next leader.

use std::{sync::atomic::Ordering, time::Duration};

use tower_redlock::Leader;

use super::{
    scene::{Candidate, FOLLOWED, Scene, TTL},
    takeover::counted,
};

/// Maximum time of a handover without network delay.
const AT_ONCE: Duration = Duration::from_millis(10);

fn leads(candidates: &[Candidate]) -> Option<usize> {
    candidates.iter().position(|candidate| candidate.leader.is_leader())
}

fn resign(scene: &Scene, leader: &Leader) {
    let leader = leader.clone();
    let resigned = scene.clock.spawn(async move { leader.resign().await });
    scene.clock.settle();
    assert!(resigned.is_finished());
}

/// Names of candidates.
const NAMES: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];

#[test]
fn resignation_wakes_the_next_candidate() {
    for count in [2, 3, 4, 7] {
        let scene = Scene::new();
        let candidates: Vec<_> = NAMES[..count].iter().map(|name| scene.candidate(name)).collect();
        let _runs: Vec<_> = candidates
            .iter()
            .map(|it| scene.run(&it.leader.clone().resign_grace(Duration::ZERO)))
            .collect();
        let mut longest = Duration::ZERO;
        for round in 0..20 {
            scene.clock.advance(TTL + Duration::from_millis(round * 170));
            let leader = leads(&candidates).expect("one leads");
            let terms = scene.witness.terms();
            let since = tower_redlock::time::Clock::now(&scene.clock);
            resign(&scene, &candidates[leader].leader);
            scene.clock.advance(AT_ONCE);
            let next = leads(&candidates);
            assert!(next.is_some(), "{count} candidates, round {round}: no candidate leads");
            assert_ne!(next, Some(leader), "the former leader leads again");
            assert_eq!(scene.witness.terms(), terms + 1);
            longest = longest.max(scene.witness.elected_at().saturating_duration_since(since));
        }
        println!("{count} candidates: followed within {longest:?}");
    }
}

#[test]
fn finished_work_wakes_the_next_candidate() {
    let scene = Scene::new();
    let (a, b) = (scene.candidate("a"), scene.candidate("b"));
    let clock = scene.clock.clone();
    let returned = scene.clock.spawn(a.leader.run(move |_| clock.sleep(TTL * 2)));
    scene.clock.settle();
    let _b = scene.run(&b.leader);
    scene.clock.advance(TTL * 2);
    assert!(returned.is_finished());
    scene.clock.advance(AT_ONCE);
    assert!(b.leader.is_leader());
}

#[test]
fn without_wakeups_polling_finds_the_release() {
    let scene = Scene::new();
    let a = scene.candidate("a");
    let (redlock, _) = counted(&scene, &scene.candidate("b"), false);
    let other = redlock.leader("x");
    let _a = scene.run(&a.leader.clone().resign_grace(Duration::ZERO));
    let _b = scene.run(&other);
    scene.clock.advance(TTL);
    resign(&scene, &a.leader);
    scene.clock.advance(AT_ONCE);
    assert!(!other.is_leader());
    scene.clock.advance(FOLLOWED);
    assert!(other.is_leader());
}

/// Candidates that are woken too late make one or two more attempts, and then stand by.
#[test]
fn handover_costs_few_attempts() {
    let scene = Scene::new();
    let a = scene.candidate("a");
    let _a = scene.run(&a.leader.clone().resign_grace(Duration::ZERO));
    let others: Vec<_> =
        NAMES[1..].iter().map(|name| counted(&scene, &scene.candidate(name), true)).collect();
    let leaders: Vec<_> = others.iter().map(|(redlock, _)| redlock.leader("x")).collect();
    let _runs: Vec<_> = leaders.iter().map(|leader| scene.run(leader)).collect();
    scene.clock.advance(TTL);
    let count = || -> usize { others.iter().map(|(_, asked)| asked.load(Ordering::SeqCst)).sum() };
    let before = count();
    resign(&scene, &a.leader);
    scene.clock.advance(TTL / 10);
    assert_eq!(leaders.iter().filter(|leader| leader.is_leader()).count(), 1);
    let each = (count() - before).div_ceil(others.len());
    assert!(each <= 4 * scene.nodes.len(), "{each} messages of each candidate");
}
