//! Locks that end before the work does.

use std::convert::Infallible;

use futures_util::FutureExt;
use tower_redlock::{
    LockError,
    error::LossCause,
    once::{Once, OnceError, OnceRequest, UnknownOutcome},
    testing::Task,
};

use super::fixture::{Ended, Fixture, HOUR, KEY, TTL, assert_done_by, assert_ran, in_progress_by};
use crate::log::Log;

/// Partitions blue from the nodes until the lock of its work is lost.
fn loses(fixture: &Fixture, request: OnceRequest) -> Task<Ended> {
    let mut work = fixture.stuck(request);
    assert_eq!(fixture.nodes.key_counts(), [1; 3]);
    fixture.blue.partition(0..3);
    fixture.clock.advance(TTL);
    let ended = work.take().expect("it was stopped");
    let Err(OnceError::Lock(LockError::Lost { cause: LossCause::Expired { .. } })) = ended else {
        panic!("{ended:?}")
    };
    fixture.blue.heal(0..3);
    work
}

#[test]
fn lost_work_frees_the_key() {
    let fixture = Fixture::new(3);
    let _work = loses(&fixture, fixture.at_blue.once(KEY));
    assert_ran(&fixture.green_does(), 1);
}

#[tokio::test]
async fn lost_work_is_not_dropped() {
    let (fixture, log) = (Fixture::new(3), Log::new());
    let request = fixture.at_blue.once(KEY).unknown(UnknownOutcome::Hold(HOUR));
    log.during(async { drop(loses(&fixture, request)) }).await;
    assert!(log.count("WARN") > 0 && !log.text().contains("dropped or panicked"), "{}", log.text());
}

#[tokio::test]
async fn dropped_work_is_reported() {
    let (fixture, log) = (Fixture::new(3), Log::new());
    log.during(async {
        let forever = std::future::pending::<Result<usize, Infallible>>();
        let mut work = Box::pin(fixture.at_blue.once(KEY).run(|_| forever));
        assert!((&mut work).now_or_never().is_none(), "it runs");
        drop(work);
    })
    .await;
    assert_eq!(log.count("WARN"), 1, "{}", log.text());
    assert!(log.text().contains("dropped or panicked"), "{}", log.text());
}

#[test]
fn lost_work_is_held() {
    let fixture = Fixture::new(3);
    let _work = loses(&fixture, fixture.at_blue.once(KEY).unknown(UnknownOutcome::Hold(HOUR)));
    for ended in [fixture.green_does(), fixture.blue_does()] {
        let (unknown, retry_after) = in_progress_by(&ended, "blue");
        assert_eq!((unknown, retry_after), (true, Some(HOUR.saturating_sub(TTL))));
    }
    assert_eq!(fixture.nodes.key_counts(), [0; 3], "asking leaves no lock");
    fixture.clock.advance(HOUR.saturating_sub(TTL));
    assert_ran(&fixture.green_does(), 1);
}

/// The nodes are reachable, but blue does not remove its record.
#[test]
fn overlong_work_is_held() {
    let fixture = Fixture::new(3);
    let forever = std::future::pending::<Result<usize, Infallible>>();
    let request = fixture.at_blue.once(KEY).unknown(UnknownOutcome::Hold(HOUR)).max_hold(TTL);
    let mut work = fixture.clock.spawn(request.run(|_| forever));
    fixture.clock.advance(TTL);
    let ended = work.take().expect("it was stopped");
    let Err(OnceError::Lock(LockError::Lost { cause: LossCause::MaxHold { .. } })) = ended else {
        panic!("{ended:?}")
    };
    let (unknown, _) = in_progress_by(&fixture.green_does(), "blue");
    assert!(unknown);
}

/// The lock expires before blue notices it.
#[test]
fn drop_after_expiry_is_held() {
    let fixture = Fixture::new(3);
    let forever = std::future::pending::<Result<usize, Infallible>>();
    let request = fixture.at_blue.once(KEY).unknown(UnknownOutcome::Hold(HOUR));
    let mut work = Box::pin(request.run(|_| forever));
    assert!((&mut work).now_or_never().is_none(), "it runs");
    fixture.clock.leap(TTL);
    drop(work);
    let ended = fixture.green_does();
    assert!(matches!(ended, Ok(Once::InProgress { unknown: true, .. })), "{ended:?}");
}

#[test]
fn held_work_completes() {
    let fixture = Fixture::new(3);
    let hold = || fixture.at_blue.once(KEY).unknown(UnknownOutcome::Hold(HOUR));
    assert_ran(&fixture.does(hold()), 1);
    fixture.clock.advance(2 * HOUR);
    assert_done_by(&fixture.does(hold()), "blue");
    assert_done_by(&fixture.green_does(), "blue");
}

/// A process pauses inside a poll of the work while another runs it.
#[test]
fn paused_holder_reports_unrecorded() {
    let fixture = Fixture::new(3);
    let (clock, at_green, runs) =
        (fixture.clock.clone(), fixture.at_green.clone(), fixture.runs.clone());
    let frozen = fixture.at_blue.once(KEY).run(|_| async move {
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
    for ended in [fixture.green_does(), fixture.blue_does()] {
        assert_done_by(&ended, "green");
    }
}
