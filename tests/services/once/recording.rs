//! Records of done work: stored on a quorum, with retries, and repaired on nodes that lack them.

use std::{convert::Infallible, future::Future};

use futures_util::FutureExt;
use tower_redlock::{LockError, once::Once, testing::Task};

use super::scene::{Ended, KEY, MS, SECOND, Scene, assert_done_by, assert_ran};
use crate::log::Log;

/// Runs work of blue that calls `act` at its end.
fn does_and(scene: &Scene, act: impl FnOnce() + Send + 'static) -> Task<Ended> {
    let runs = scene.runs.clone();
    let work = scene.clock.spawn(scene.at_blue.once(KEY).run(|_| async move {
        act();
        Ok::<_, Infallible>(runs.run())
    }));
    scene.clock.settle();
    work
}

#[test]
fn record_survives_minority_loss() {
    for lost in [[0, 1], [1, 2], [2, 3], [3, 4], [0, 4]] {
        let scene = Scene::new(5);
        assert_ran(&scene.blue_does(), 1);
        scene.nodes.forget_unguarded(lost);
        assert_done_by(&scene.green_does(), "blue");
        scene.nodes.stop(lost);
        assert_done_by(&scene.green_does(), "blue");
    }
}

#[test]
fn read_repairs_other_nodes() {
    let scene = Scene::new(5);
    scene.nodes.stop([0, 1]);
    assert_ran(&scene.blue_does(), 1);
    scene.nodes.start([0, 1]);
    assert_done_by(&scene.green_does(), "blue");
    // Those that did it are gone.
    scene.nodes.forget_unguarded([2, 3, 4]);
    let ended = scene.green_does();
    assert_done_by(&ended, "blue");
    // All nodes have the record again, with its full retention.
    scene.nodes.forget_unguarded([0, 1]);
    let Ok(Once::AlreadyDone { remaining, .. }) = scene.blue_does() else { panic!() };
    assert_eq!(remaining, 96 * super::scene::HOUR);
}

/// One node answers the read of the record, and two answer the next one.
#[test]
fn read_by_too_few_is_repeated() {
    let scene = Scene::new(3);
    scene.nodes.freeze([1, 2]);
    let runs = scene.runs.clone();
    let request = scene.at_blue.once(KEY).wait(SECOND);
    let mut work =
        scene.clock.spawn(request.run(|_| async move { Ok::<_, Infallible>(runs.run()) }));
    scene.clock.settle();
    scene.nodes.thaw([1]);
    scene.nodes.freeze([1]);
    scene.clock.advance(50 * MS);
    assert_eq!(scene.runs.count(), 0);
    scene.nodes.thaw([1, 2]);
    scene.clock.advance(25 * MS);
    assert_ran(&work.take().expect("it ends"), 1);
}

#[test]
fn read_repairs_late_nodes() {
    let scene = Scene::new(3);
    scene.nodes.stop([0]);
    assert_ran(&scene.blue_does(), 1);
    scene.nodes.start([0]);
    scene.nodes.freeze([0]);
    assert_done_by(&scene.green_does(), "blue");
    scene.nodes.thaw([0]);
    scene.nodes.forget_unguarded([1, 2]);
    assert_done_by(&scene.green_does(), "blue");
}

/// Repairs of an expiring record would prolong it without end.
#[test]
fn expiring_record_is_not_repaired() {
    for (left, is_brought) in [(51 * MS, true), (50 * MS, false)] {
        let scene = Scene::new(3);
        scene.nodes.stop([0]);
        assert_ran(&scene.does(scene.at_blue.once(KEY).retain(SECOND)), 1);
        scene.nodes.start([0]);
        scene.clock.advance(SECOND.saturating_sub(left));
        assert_done_by(&scene.green_does(), "blue");
        scene.nodes.forget_unguarded([1, 2]);
        assert_eq!(matches!(scene.green_does(), Ok(Once::AlreadyDone { .. })), is_brought);
    }
}

#[test]
fn minority_record_counts() {
    let scene = Scene::new(3);
    let blue = scene.blue.clone();
    let mut work = does_and(&scene, move || blue.partition([0, 1]));
    scene.clock.advance(SECOND);
    let ended = work.take().expect("it gives up");
    let Ok(Once::RanUnrecorded(1, LockError::NoQuorum { votes })) = ended else {
        panic!("{ended:?}")
    };
    assert_eq!(votes.len(), 3);
    // The lock is given back only where it can be; elsewhere its TTL ends.
    scene.clock.advance(10 * SECOND);
    scene.blue.heal([0, 1]);
    assert_done_by(&scene.green_does(), "blue");
    scene.nodes.stop([2]);
    assert_done_by(&scene.green_does(), "blue");
}

#[test]
fn unrecorded_work_runs_again() {
    let scene = Scene::new(3);
    let blue = scene.blue.clone();
    let mut work = does_and(&scene, move || blue.partition(0..3));
    // Ten node timeouts, and one round.
    scene.clock.advance(450 * MS);
    assert!(!work.is_finished(), "it is tried for a while");
    scene.clock.advance(100 * MS);
    let ended = work.take().expect("it gives up");
    let Ok(Once::RanUnrecorded(1, LockError::NoQuorum { .. })) = ended else { panic!("{ended:?}") };
    scene.clock.advance(10 * SECOND);
    assert_ran(&scene.green_does(), 2);
}

#[test]
fn recording_survives_short_outage() {
    let scene = Scene::new(3);
    let blue = scene.blue.clone();
    let mut work = does_and(&scene, move || blue.partition(0..3));
    scene.clock.advance(300 * MS);
    assert!(matches!(scene.green_does(), Ok(Once::InProgress { .. })), "the lock is kept");
    scene.blue.heal(0..3);
    scene.clock.advance(100 * MS);
    assert_ran(&work.take().expect("it is recorded"), 1);
    assert_done_by(&scene.green_does(), "blue");
}

#[test]
fn recording_restores_lost_keys() {
    let scene = Scene::new(3);
    let nodes = scene.nodes.clone();
    let mut work = does_and(&scene, move || nodes.forget_unguarded([0, 1]));
    scene.clock.advance(100 * MS);
    assert_ran(&work.take().expect("it is recorded"), 1);
    scene.nodes.stop([2]);
    assert_done_by(&scene.green_does(), "blue");
}

#[test]
fn drop_after_work_records_it() {
    let scene = Scene::new(3);
    let (nodes, runs) = (scene.nodes.clone(), scene.runs.clone());
    let mut run = Box::pin(scene.at_blue.once(KEY).run(|_| async move {
        nodes.freeze(0..3);
        Ok::<_, Infallible>(runs.run())
    }));
    assert!(pending(&mut run), "no node has answered");
    drop(run);
    scene.nodes.thaw(0..3);
    assert_eq!(scene.nodes.key_counts(), [0; 3]);
    assert_done_by(&scene.green_does(), "blue");
    assert_eq!(scene.runs.count(), 1);
}

fn pending<F: Future + Unpin>(future: &mut F) -> bool {
    future.now_or_never().is_none()
}

#[tokio::test]
async fn completed_recording_does_not_warn() {
    let scene = Scene::new(3);
    let log = Log::new();
    let ended = log.during(async { scene.blue_does() }).await;
    assert_ran(&ended, 1);
    assert_eq!(log.count("WARN"), 0, "{}", log.text());
}
