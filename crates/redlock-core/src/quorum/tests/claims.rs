//! Which run of a job counts as the latest, case by case.

use std::time::Duration;

use crate::{
    protocol::{TickClaim, TickRun},
    quorum::claims::{ClaimStatus, LatestClaim, status},
};

pub(super) fn run_of(tick: u64) -> TickRun {
    TickRun::new(Duration::from_millis(tick), 1, Duration::from_millis(1))
}

pub(super) fn claim(token: u64, tick: u64, before: Option<u64>) -> TickClaim {
    TickClaim::new(
        token,
        run_of(tick),
        format!("replica {token}").into(),
        before.map(run_of).map(Into::into),
    )
}

fn latest(claim: &TickClaim) -> LatestClaim {
    LatestClaim {
        run: claim.run,
        owner: Some(claim.owner.clone()),
        before: claim.before.clone(),
        schedule: claim.schedule.clone(),
        fates: claim.fates,
        is_replicated: true,
    }
}

fn on_few_nodes(claim: &TickClaim) -> LatestClaim {
    LatestClaim { is_replicated: false, ..latest(claim) }
}

/// Returns the tick that the latest claim names as the one before it.
fn tick_before(tick: u64) -> ClaimStatus {
    ClaimStatus::Known(Some(LatestClaim::of_former(run_of(tick).into())))
}

fn of(told: &[Option<&TickClaim>], nodes: usize) -> ClaimStatus {
    status(told.iter().copied(), nodes, &[])
}

#[test]
fn majority_claim_is_latest() {
    let (a, b) = (claim(5, 100, Some(90)), claim(4, 90, None));
    assert_eq!(of(&[Some(&a), Some(&a)], 3), ClaimStatus::Known(Some(latest(&a))));
    let told = [Some(&a), Some(&a), Some(&b), Some(&a)];
    assert_eq!(of(&told, 5), ClaimStatus::Known(Some(latest(&a))));
}

#[test]
fn a_split_vote_burns_no_tick() {
    let [a, b, c] = [5, 6, 7].map(|token| claim(token, 100, Some(50)));
    assert_eq!(of(&[Some(&a), Some(&b), None], 3), tick_before(50));
    let kept = claim(1, 50, None);
    assert_eq!(of(&[Some(&a), Some(&b), Some(&c), Some(&kept), Some(&kept)], 5), tick_before(50));
    // The run before counts even if no node keeps its claim any more.
    assert_eq!(of(&[Some(&a), Some(&b), Some(&c)], 3), tick_before(50));
}

#[test]
fn completable_claim_counts_until_answered() {
    let (a, kept) = (claim(5, 100, Some(50)), claim(4, 50, None));
    assert_eq!(of(&[Some(&a), Some(&kept)], 3), ClaimStatus::Likely(on_few_nodes(&a)));
    assert_eq!(of(&[Some(&a), Some(&kept), Some(&kept)], 3), tick_before(50));
    assert_eq!(of(&[Some(&a)], 3), ClaimStatus::TooFew);
    assert_eq!(of(&[None, None], 3), ClaimStatus::Known(None));
}

#[test]
fn own_unused_claim_is_ignored() {
    let (own, kept) = (claim(5, 100, Some(50)), claim(4, 50, None));
    assert_eq!(status([Some(&own), Some(&kept)], 3, &[5]), tick_before(50));
}

#[test]
fn one_node_proves_end_of_run() {
    let begun = claim(5, 100, None);
    let mut ended = begun.clone();

    ended.run = begun.run.ended(Duration::from_millis(7));
    for (told, latest) in [
        ([Some(&begun), Some(&ended), None], on_few_nodes(&ended)),
        ([Some(&ended), Some(&begun), Some(&ended)], latest(&ended)),
    ] {
        assert_eq!(of(&told, 3), ClaimStatus::Known(Some(latest)));
    }
}

#[test]
fn later_run_under_token_counts() {
    let later = claim(5, 200, Some(100));
    let earlier = claim(5, 100, None);
    let mut ended = earlier.clone();

    ended.run = earlier.run.ended(Duration::from_millis(7));
    for other in [&earlier, &ended] {
        for told in [[&later, &later, other], [other, &later, &later], [&later, other, other]] {
            let copies = told.iter().filter(|claim| **claim == &later).count();
            let latest = LatestClaim { is_replicated: copies >= 2, ..latest(&later) };
            assert_eq!(of(&told.map(Some), 3), ClaimStatus::Known(Some(latest)));
        }
    }
}

#[test]
fn returned_claim_survives_missed_node() {
    let claimed = claim(5, 100, Some(50));
    let back = claim(5, 50, Some(50)).numbered(1);
    for other in [&claimed, &claim(4, 50, None)] {
        for told in [[&back, &back, other], [other, &back, &back], [&back, other, other]] {
            let ClaimStatus::Known(Some(latest)) = of(&told.map(Some), 3) else { panic!() };
            assert_eq!(latest.run, run_of(50));
        }
    }
}
