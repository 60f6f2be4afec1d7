//! Requests of work that runs under a lock of the same name.

use std::{
    future::IntoFuture,
    sync::{Arc, Mutex},
};

use tower_redlock::{LockError, LockOptions, LockRequest, Redlock, testing::Task};

use crate::{
    durations::{MINUTE, MS},
    fixture::{Fixture, granted, is_held},
};

/// Runs work under a shared lock of process 0, which then makes the request that `inner` returns.
fn within<const N: usize>(
    fixture: &Fixture<N>,
    outer: LockRequest,
    inner: impl FnOnce(&Redlock) -> LockRequest + Send + 'static,
) -> Task<Result<Result<(), LockError>, LockError>> {
    let (redlock, clock) = (fixture.processes[0].clone(), fixture.clock.clone());
    let task = fixture.clock.spawn(async move {
        let work = outer.run(|_| async move {
            clock.sleep(50 * MS).await;
            inner(&redlock).await.map(drop)
        });
        work.await
    });
    fixture.clock.settle();
    task
}

#[test]
fn reader_within_a_reader_joins_beside_a_waiting_writer() {
    for writing_process in [0, 1] {
        let fixture = Fixture::<2>::numbered(1);
        let mut outer = within(&fixture, fixture.request(0).shared(), |redlock| {
            redlock.lock("report").shared().wait(MINUTE)
        });
        let mut writer = fixture.spawn(fixture.request(writing_process).wait(MINUTE));
        fixture.clock.advance(20 * MS);
        assert!(is_held(fixture.read(0)), "the writer keeps others out");
        fixture.clock.advance(100 * MS);
        assert!(outer.take().expect("the outer work has ended").unwrap().is_ok());
        drop(granted(&mut writer));
    }
}

#[test]
fn work_that_waits_for_itself_fails_at_once() {
    for (outer_shares, inner_shares) in [(true, false), (false, true), (false, false)] {
        let fixture = Fixture::<1>::numbered(1);
        let options = |shares| LockOptions::new().wait(MINUTE).shared(shares);
        let outer = fixture.request(0).options(options(outer_shares));
        let mut work = within(&fixture, outer, move |redlock| {
            redlock.lock("report").options(options(inner_shares))
        });
        fixture.clock.advance(100 * MS);

        let refused = work.take().expect("the work does not wait").unwrap().unwrap_err();

        let shown = refused.to_string();
        assert!(matches!(refused, LockError::InvalidRequest(_)), "{shown}");
        assert!(shown.contains("\"report\" and would wait for its own end"), "{shown}");
    }
}

#[test]
fn work_that_holds_all_slots_fails_at_once() {
    for (slots, is_refused) in [(1, true), (2, false)] {
        let fixture = Fixture::<1>::numbered(1);
        let mut work = within(&fixture, fixture.request(0).slots(slots), move |redlock| {
            redlock.lock("report").slots(slots).wait(MINUTE)
        });
        fixture.clock.advance(100 * MS);

        let inner = work.take().expect("the work does not wait").unwrap();

        let is_named = |error: LockError| error.to_string().contains("would wait for its own end");
        assert_eq!(inner.is_err_and(is_named), is_refused, "{slots} slots");
    }
}

#[test]
fn request_of_another_task_may_wait_for_the_work() {
    let fixture = Fixture::<1>::numbered(1);
    let (redlock, clock) = (fixture.processes[0].clone(), fixture.clock.clone());
    let inner = Arc::new(Mutex::new(None));
    let kept = Arc::clone(&inner);
    let outer = fixture.request(0);
    let mut work = fixture.clock.spawn(async move {
        let work = outer.run(|_| async move {
            let request = redlock.lock("report").wait(MINUTE).into_future();
            *kept.lock().unwrap() = Some(clock.spawn(request));
            clock.sleep(50 * MS).await;
        });
        work.await
    });
    fixture.clock.advance(20 * MS);
    assert!(inner.lock().unwrap().as_ref().is_some_and(|task| !task.is_finished()));
    fixture.clock.advance(100 * MS);
    assert!(work.take().expect("the work has ended").is_ok());
    let task = inner.lock().unwrap().take();
    assert!(task.and_then(|mut task| task.take()).expect("it is granted").is_ok());
}
