//! Locks that end before the work does.

use std::convert::Infallible;

use futures_util::FutureExt;
use tower_redlock::{
    LockError,
    error::LossCause,
    once::{Once, OnceError, OnceRequest, UnknownOutcome},
    testing::Task,
};

use super::scene::{Ended, HOUR, KEY, Scene, TTL, assert_done_by, assert_ran, in_progress_by};
use crate::log::Log;

/// Partitions blue from the nodes until the lock of its work is lost.
fn loses(scene: &Scene, request: OnceRequest) -> Task<Ended> {
    let forever = std::future::pending::<Result<usize, Infallible>>();
    let mut work = scene.clock.spawn(request.run(|_| forever));
    scene.clock.settle();
    assert_eq!(scene.nodes.key_counts(), [1; 3]);
    scene.blue.partition(0..3);
    scene.clock.advance(TTL);
    let ended = work.take().expect("it was stopped");
    let Err(OnceError::Lock(LockError::Lost { cause: LossCause::Expired { .. } })) = ended else {
        panic!("{ended:?}")
    };
    scene.blue.heal(0..3);
    work
}

#[test]
fn lost_work_frees_the_key() {
    let scene = Scene::new(3);
    let _work = loses(&scene, scene.at_blue.once(KEY));
    assert_ran(&scene.green_does(), 1);
}

#[tokio::test]
async fn lost_work_is_not_dropped() {
    let (scene, log) = (Scene::new(3), Log::new());
    let request = scene.at_blue.once(KEY).unknown(UnknownOutcome::Hold(HOUR));
    log.during(async { drop(loses(&scene, request)) }).await;
    assert!(log.count("WARN") > 0 && !log.text().contains("dropped or panicked"), "{}", log.text());
}

#[tokio::test]
async fn dropped_work_is_reported() {
    let (scene, log) = (Scene::new(3), Log::new());
    log.during(async {
        let forever = std::future::pending::<Result<usize, Infallible>>();
        let mut work = Box::pin(scene.at_blue.once(KEY).run(|_| forever));
        assert!((&mut work).now_or_never().is_none(), "it runs");
        drop(work);
    })
    .await;
    assert_eq!(log.count("WARN"), 1, "{}", log.text());
    assert!(log.text().contains("dropped or panicked"), "{}", log.text());
}

#[test]
fn lost_work_is_held() {
    let scene = Scene::new(3);
    let _work = loses(&scene, scene.at_blue.once(KEY).unknown(UnknownOutcome::Hold(HOUR)));
    for ended in [scene.green_does(), scene.blue_does()] {
        let (unknown, retry_after) = in_progress_by(&ended, "blue");
        assert_eq!((unknown, retry_after), (true, Some(HOUR.saturating_sub(TTL))));
    }
    assert_eq!(scene.nodes.key_counts(), [0; 3], "asking leaves no lock");
    scene.clock.advance(HOUR.saturating_sub(TTL));
    assert_ran(&scene.green_does(), 1);
}

/// The nodes are reachable, but blue does not remove its record.
#[test]
fn overlong_work_is_held() {
    let scene = Scene::new(3);
    let forever = std::future::pending::<Result<usize, Infallible>>();
    let request = scene.at_blue.once(KEY).unknown(UnknownOutcome::Hold(HOUR)).max_hold(TTL);
    let mut work = scene.clock.spawn(request.run(|_| forever));
    scene.clock.advance(TTL);
    let ended = work.take().expect("it was stopped");
    let Err(OnceError::Lock(LockError::Lost { cause: LossCause::MaxHold { .. } })) = ended else {
        panic!("{ended:?}")
    };
    let (unknown, _) = in_progress_by(&scene.green_does(), "blue");
    assert!(unknown);
}

/// The lock expires before blue notices it.
#[test]
fn drop_after_expiry_is_held() {
    let scene = Scene::new(3);
    let forever = std::future::pending::<Result<usize, Infallible>>();
    let request = scene.at_blue.once(KEY).unknown(UnknownOutcome::Hold(HOUR));
    let mut work = Box::pin(request.run(|_| forever));
    assert!((&mut work).now_or_never().is_none(), "it runs");
    scene.clock.leap(TTL);
    drop(work);
    let ended = scene.green_does();
    assert!(matches!(ended, Ok(Once::InProgress { unknown: true, .. })), "{ended:?}");
}

#[test]
fn running_work_is_not_unknown() {
    let scene = Scene::new(3);
    let forever = std::future::pending::<Result<usize, Infallible>>();
    let request = scene.at_blue.once(KEY).unknown(UnknownOutcome::Hold(HOUR));
    let _work = scene.clock.spawn(request.run(|_| forever));
    scene.clock.settle();
    let (unknown, _) = in_progress_by(&scene.green_does(), "blue");
    assert!(!unknown);
}

#[test]
fn held_work_completes() {
    let scene = Scene::new(3);
    let hold = || scene.at_blue.once(KEY).unknown(UnknownOutcome::Hold(HOUR));
    assert_ran(&scene.does(hold()), 1);
    scene.clock.advance(2 * HOUR);
    assert_done_by(&scene.does(hold()), "blue");
    assert_done_by(&scene.green_does(), "blue");
}

/// A process pauses inside a poll of the work while another runs it.
#[test]
fn paused_holder_reports_unrecorded() {
    let scene = Scene::new(3);
    let (clock, at_green, runs) = (scene.clock.clone(), scene.at_green.clone(), scene.runs.clone());
    let frozen = scene.at_blue.once(KEY).run(|_| async move {
        // Nothing of blue runs meanwhile.
        clock.leap(TTL);
        let ours = runs.clone();
        let retry = at_green.once(KEY).run(|_| async move { Ok::<_, Infallible>(ours.run()) });
        assert_ran(&retry.now_or_never().expect("at once"), 1);
        Ok::<_, Infallible>(runs.run())
    });
    let ended = frozen.now_or_never().expect("it ends in its first poll");
    let Ok(Once::RanUnrecorded(2, LockError::Lost { .. })) = ended else { panic!("{ended:?}") };
    // The retry's record stands.
    for ended in [scene.green_does(), scene.blue_does()] {
        assert_done_by(&ended, "green");
    }
}
