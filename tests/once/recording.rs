//! That the work is done: told to a quorum, again and again if need be, and brought to nodes that
//! don't know.

use std::{convert::Infallible, future::Future};

use futures_util::FutureExt;
use tower_redlock::{LockError, once::Once, testing::Task};

use super::{
    log::Log,
    scene::{Ended, KEY, MS, SECOND, Scene, assert_done_by, assert_ran},
};

/// Work of blue's, over five nodes, at whose end `act` happens.
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
fn a_record_survives_the_loss_of_any_minority() {
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
fn a_record_that_a_node_tells_is_brought_to_the_others() {
    let scene = Scene::new(5);
    scene.nodes.stop([0, 1]);
    assert_ran(&scene.blue_does(), 1);
    scene.nodes.start([0, 1]);
    assert_done_by(&scene.green_does(), "blue");
    // Those that did it are gone.
    scene.nodes.forget_unguarded([2, 3, 4]);
    let ended = scene.green_does();
    assert_done_by(&ended, "blue");
    // By now all of them have it again, for as long as it was to be kept.
    scene.nodes.forget_unguarded([0, 1]);
    let Ok(Once::AlreadyDone { remaining, .. }) = scene.blue_does() else { panic!() };
    assert_eq!(remaining, 96 * super::scene::HOUR);
}

#[test]
fn a_node_that_answers_late_is_told_as_well() {
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

/// Each copy would end a little later than the one before it, without an end where requests don't end.
#[test]
fn a_record_that_is_about_to_end_is_brought_nowhere() {
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
fn a_record_of_a_minority_counts_as_soon_as_it_is_seen() {
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
fn work_that_no_node_keeps_says_so_and_may_run_again() {
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
fn a_short_outage_at_the_end_is_sat_out_under_the_lock() {
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
fn nodes_that_lost_the_lock_in_the_middle_are_given_it_again_for_the_record() {
    let scene = Scene::new(3);
    let nodes = scene.nodes.clone();
    let mut work = does_and(&scene, move || nodes.forget_unguarded([0, 1]));
    scene.clock.advance(100 * MS);
    assert_ran(&work.take().expect("it is recorded"), 1);
    scene.nodes.stop([2]);
    assert_done_by(&scene.green_does(), "blue");
}

#[test]
fn a_future_that_is_dropped_behind_the_work_has_it_recorded() {
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
async fn a_call_that_is_dropped_while_its_end_is_recorded_is_a_warning() {
    let scene = Scene::new(3);
    let log = Log::new();
    let mut call = Box::pin(scene.at_blue.once(KEY).run(|_| async {
        scene.nodes.freeze([0, 1]);
        Ok::<_, Infallible>(scene.runs.run())
    }));
    log.during(async {
        assert!(call.as_mut().now_or_never().is_none(), "too few nodes answer");
        drop(call);
    })
    .await;
    log.wait_for("WARN", &["work was done", "dropped", "may run it again", KEY, "token="]).await;
    assert_eq!((scene.runs.count(), log.count("WARN")), (1, 1), "{}", log.text());
}

#[tokio::test]
async fn a_call_whose_end_is_recorded_warns_of_nothing() {
    let scene = Scene::new(3);
    let log = Log::new();
    let ended = log.during(async { scene.blue_does() }).await;
    assert_ran(&ended, 1);
    assert_eq!(log.count("WARN"), 0, "{}", log.text());
}
