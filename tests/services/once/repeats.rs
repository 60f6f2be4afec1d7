//! One request runs; repetitions get its outcome.

use std::{convert::Infallible, time::Duration};

use futures_util::{FutureExt, future::join_all};
use tower_redlock::{
    LockError, Redlock,
    error::ResourceError,
    node::EmbeddedNodes,
    once::{Once, OnceError},
    time::Clock,
};

use super::fixture::{
    Fixture, HOUR, KEY, MS, Runs, SECOND, TTL, assert_done_by, assert_ran, in_progress_by,
};

#[test]
fn repeats_get_owner_and_time() {
    let fixture = Fixture::new(5);
    let at = std::time::UNIX_EPOCH + fixture.clock.wall();
    assert_ran(&fixture.blue_does(), 1);
    fixture.clock.advance(HOUR);
    for ended in [fixture.blue_does(), fixture.green_does()] {
        let Ok(Once::AlreadyDone { by, at: when, token, remaining, .. }) = ended else {
            panic!("{ended:?}")
        };
        assert_eq!((&*by, when, remaining), ("blue", at, 95 * HOUR));
        assert!(token.get() > 0);
    }
    assert_eq!(fixture.runs.count(), 1);
    assert_eq!(fixture.nodes.key_counts(), [0; 5], "no lock is left");
}

#[test]
fn record_lasts_for_retain() {
    let fixture = Fixture::new(3);
    assert_ran(&fixture.does(fixture.at_blue.once(KEY).retain(HOUR)), 1);
    fixture.clock.advance(HOUR.saturating_sub(MS));
    assert_done_by(&fixture.green_does(), "blue");
    fixture.clock.advance(MS);
    assert_ran(&fixture.green_does(), 2);
    // By default: 96 hours.
    fixture.clock.advance((96 * HOUR).saturating_sub(MS));
    assert_done_by(&fixture.blue_does(), "green");
    fixture.clock.advance(MS);
    assert_ran(&fixture.blue_does(), 3);
}

#[test]
fn retry_after_is_the_usual_duration() {
    let fixture = Fixture::new(3);
    for key in ["order:1", "order:2", "order:3"] {
        let (sleep, redlock) = (fixture.clock.sleep(SECOND / 5), fixture.at_green.clone());
        let mut work = fixture.clock.spawn(redlock.once(key).run(|_| async move {
            sleep.await;
            Ok::<_, Infallible>(())
        }));
        fixture.clock.advance(SECOND / 5);
        assert!(matches!(work.take(), Some(Ok(Once::Ran(())))));
    }
    let _work = fixture.works_for(TTL);
    let (unknown, retry_after) = in_progress_by(&fixture.green_does(), "blue");
    assert!(!unknown);
    assert!(retry_after.is_some_and(|after| after <= 2 * SECOND / 5), "{retry_after:?}");
}

#[test]
fn running_work_names_its_owner() {
    let fixture = Fixture::new(3);
    let (runs, sleep) = (fixture.runs.clone(), fixture.clock.sleep(3 * TTL));
    let mut work = fixture.clock.spawn(fixture.at_blue.once(KEY).run(|_| async move {
        sleep.await;
        Ok::<_, Infallible>(runs.run())
    }));
    // It is renewed.
    fixture.clock.advance(2 * TTL);
    for ended in [fixture.green_does(), fixture.blue_does()] {
        let (unknown, retry_after) = in_progress_by(&ended, "blue");
        assert!(!unknown);
        // Nothing was measured: about a second, whatever is left of the TTL.
        assert!(retry_after.is_some_and(|after| after <= 3 * SECOND / 2), "{retry_after:?}");
    }
    fixture.clock.advance(TTL);
    assert_ran(&work.take().expect("it is over"), 1);
    assert_done_by(&fixture.green_does(), "blue");
}

#[test]
fn waiter_learns_of_the_end() {
    let fixture = Fixture::new(3);
    let mut first = fixture.works_for(5 * SECOND);
    let waiting = fixture.at_green.once(KEY).wait(TTL);
    let mut waiting = fixture.clock.spawn(waiting.run(|_| async { Ok::<_, Infallible>(2) }));
    fixture.clock.advance(5 * SECOND);
    assert_ran(&first.take().expect("it is over"), 1);
    fixture.clock.advance(SECOND);
    assert_done_by(&waiting.take().expect("it is done"), "blue");
}

#[test]
fn expired_wait_is_in_progress() {
    let fixture = Fixture::new(3);
    let _work = fixture.stuck(fixture.at_blue.once(KEY));
    let waiting = fixture.at_green.once(KEY).wait(SECOND);
    let mut waiting = fixture.clock.spawn(waiting.run(|_| async { Ok::<_, Infallible>(2) }));
    fixture.clock.advance(2 * SECOND);
    let (unknown, _) = in_progress_by(&waiting.take().expect("the wait is over"), "blue");
    assert!(!unknown);
}

#[test]
fn keys_and_locks_are_separate() {
    let fixture = Fixture::new(3);
    let lock = fixture.at_blue.lock(KEY).now_or_never_ok();
    assert_ran(&fixture.green_does(), 1);
    drop(lock);
    // It is locked under this name.
    let _lock =
        fixture.at_blue.lock(tower_redlock::Resource::of_once(KEY).unwrap()).now_or_never_ok();
    assert_done_by(&fixture.green_does(), "green");
    let other = fixture.does(fixture.at_green.once("order:8"));
    assert_ran(&other, 2);
}

trait NowOrNever {
    fn now_or_never_ok(self) -> tower_redlock::Lock;
}

impl NowOrNever for tower_redlock::LockRequest {
    fn now_or_never_ok(self) -> tower_redlock::Lock {
        self.into_future().now_or_never().expect("at once").expect("it is free")
    }
}

#[test]
fn invalid_requests_never_run() {
    let fixture = Fixture::new(3);
    let resource = |ended| match ended {
        Err(OnceError::Lock(LockError::InvalidResource(error))) => error,
        other => panic!("{other:?}"),
    };
    let set = fixture.does(fixture.at_blue.once(["a", "b"]));
    assert!(matches!(resource(set), ResourceError::Setup(_)));
    let empty = fixture.does(fixture.at_blue.once(""));
    assert_eq!(resource(empty), ResourceError::EmptyName);
    let long = fixture.does(fixture.at_blue.once("x".repeat(508)));
    assert_eq!(resource(long), ResourceError::NameTooLong { bytes: 513 });
    assert_ran(&fixture.does(fixture.at_blue.once("x".repeat(507))), 1);

    let hold = tower_redlock::once::UnknownOutcome::Hold;
    for request in [
        fixture.at_blue.once(KEY).retain(Duration::ZERO),
        fixture.at_blue.once(KEY).retain(Duration::MAX),
        fixture.at_blue.once(KEY).unknown(hold(Duration::ZERO)),
        fixture.at_blue.once(KEY).ttl(Duration::ZERO),
    ] {
        let ended = fixture.does(request);
        let Err(OnceError::Lock(LockError::InvalidRequest(_))) = ended else { panic!("{ended:?}") };
    }
    assert_eq!(fixture.runs.count(), 1);
}

#[test]
fn without_a_quorum_nothing_runs() {
    let fixture = Fixture::new(5);
    fixture.nodes.stop(0..3);
    let ended = fixture.blue_does();
    let Err(OnceError::Lock(LockError::NoQuorum { votes })) = ended else { panic!("{ended:?}") };
    assert_eq!(votes.len(), 5);
    assert_eq!(fixture.runs.count(), 0);
    fixture.nodes.start([0]);
    assert_ran(&fixture.blue_does(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_of_many_concurrent_requests_runs() {
    let nodes = EmbeddedNodes::new(5);
    let manager = || Redlock::builder().nodes_from(&nodes).build().unwrap();
    let managers = [manager(), manager()];
    let runs = Runs::default();
    for key in 0..50 {
        let before = runs.count();
        let all = (0..20).map(|i| {
            let (redlock, runs) = (managers[i % 2].clone(), runs.clone());
            tokio::spawn(async move {
                loop {
                    let request = redlock.once(format!("key {key}"));
                    let work = |_| async {
                        tokio::task::yield_now().await;
                        Ok::<_, Infallible>(runs.run())
                    };
                    match request.run(work).await {
                        Ok(Once::InProgress { .. }) | Err(OnceError::Lock(_)) => {
                            tokio::time::sleep(MS).await;
                        }
                        ended => return ended,
                    }
                }
            })
        });
        let ended: Vec<_> = join_all(all).await.into_iter().map(Result::unwrap).collect();
        let ran = ended.iter().filter(|ended| matches!(ended, Ok(Once::Ran(_)))).count();
        let done =
            ended.iter().filter(|ended| matches!(ended, Ok(Once::AlreadyDone { .. }))).count();
        assert_eq!((ran, done, runs.count() - before), (1, 19, 1), "{ended:?}");
    }
}
