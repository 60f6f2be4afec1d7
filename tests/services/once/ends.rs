//! Work that ends without being done.

use std::{
    convert::Infallible,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use futures_util::FutureExt;
use tower_redlock::once::{Once, OnceError, OnceRequest, UnknownOutcome};

use super::fixture::{Fixture, HOUR, KEY, TTL, assert_done_by, assert_ran, in_progress_by};

/// The key is free at once, and no node has a record.
fn frees_at_once(unknown: UnknownOutcome, end: impl Fn(&Fixture, OnceRequest)) {
    let fixture = Fixture::new(3);
    end(&fixture, fixture.at_blue.once(KEY).unknown(unknown));
    assert_eq!(fixture.nodes.key_counts(), [0; 3]);
    let status = fixture.at_green.once(KEY).status().now_or_never().unwrap().unwrap();
    assert_eq!(status, None);
    let runs = fixture.runs.count();
    assert_ran(&fixture.green_does(), runs + 1);
}

/// The outcome is unknown, as after a crash: the key is free only with `UnknownOutcome::Release`.
fn is_unknown(end: impl Fn(&Fixture, OnceRequest)) {
    frees_at_once(UnknownOutcome::Release, &end);
    let fixture = Fixture::new(3);
    end(&fixture, fixture.at_blue.once(KEY).unknown(UnknownOutcome::Hold(HOUR)));
    assert_eq!(fixture.nodes.key_counts(), [0; 3], "the lock is given back");
    assert_eq!(in_progress_by(&fixture.green_does(), "blue"), (true, Some(HOUR)));
    assert_eq!(in_progress_by(&fixture.blue_does(), "blue"), (true, Some(HOUR)));
}

#[test]
fn error_leaves_an_unknown_outcome() {
    is_unknown(|fixture, request| {
        let runs = fixture.runs.clone();
        let work = request.run(|_| async move {
            runs.run();
            Err::<usize, _>("connection broken")
        });
        assert_eq!(work.now_or_never().unwrap(), Err(OnceError::Work("connection broken")));
    });
}

#[test]
fn incomplete_output_frees_the_key() {
    for unknown in [UnknownOutcome::Release, UnknownOutcome::Hold(HOUR)] {
        frees_at_once(unknown, |fixture, request| {
            let runs = fixture.runs.clone();
            let work = request
                .complete_when(|output: &usize| *output > 1)
                .run(|_| async move { Ok::<_, Infallible>(runs.run()) });
            assert_eq!(work.now_or_never().unwrap(), Ok(Once::Ran(1)));
        });
    }
}

#[test]
fn complete_output_is_done() {
    let fixture = Fixture::new(3);
    let request = fixture.at_blue.once(KEY).complete_when(|output: &usize| *output == 1);
    let runs = fixture.runs.clone();
    let ran = request.run(|_| async move { Ok(runs.run()) }).now_or_never().unwrap();
    assert_ran(&ran, 1);
    assert_done_by(&fixture.green_does(), "blue");
}

fn panics() -> Result<usize, Infallible> {
    panic!("on purpose")
}

#[test]
fn a_panic_leaves_an_unknown_outcome() {
    is_unknown(|_, request| {
        let run = request.run(|_| async {
            std::future::ready(()).await;
            panics()
        });
        catch_unwind(AssertUnwindSafe(|| run.now_or_never())).unwrap_err();
    });
}

#[test]
fn early_panic_leaves_unknown_outcome() {
    is_unknown(|_, request| {
        let work = |_| -> std::future::Ready<Result<usize, Infallible>> { panic!("on purpose") };
        let run = request.run(work);
        catch_unwind(AssertUnwindSafe(|| run.now_or_never())).unwrap_err();
    });
}

#[test]
fn drop_leaves_unknown_outcome() {
    is_unknown(|fixture, request| {
        let runs = fixture.runs.clone();
        let run = request.run(|_| async move {
            runs.run();
            std::future::pending::<Result<usize, Infallible>>().await
        });
        assert!(run.now_or_never().is_none(), "it is dropped here");
        assert_eq!(fixture.runs.count(), 1, "it had begun");
    });
}

/// An end before the start of the work has a known outcome.
#[test]
fn aborted_check_frees_the_key() {
    for unknown in [UnknownOutcome::Release, UnknownOutcome::Hold(HOUR)] {
        frees_at_once(unknown, |_, request| {
            let forever = std::future::pending::<Result<bool, Infallible>>();
            let run = request.unless(|_| forever).run(|_| async { panics() });
            assert!(run.now_or_never().is_none(), "it is dropped here");
        });
        frees_at_once(unknown, |_, request| {
            let check = |_| async { panics().map(|_| true) };
            let run = request.unless(check).run(|_| async { panics() });
            catch_unwind(AssertUnwindSafe(|| run.now_or_never())).unwrap_err();
        });
    }
}

#[test]
fn crash_frees_the_key_after_ttl() {
    let fixture = Fixture::new(3);
    let work = fixture.stuck(fixture.at_blue.once(KEY));
    // As a crash does, it neither renews nor gives back.
    fixture.blue.partition(0..3);
    fixture.clock.advance(TTL.saturating_sub(Duration::from_millis(1)));
    assert!(matches!(fixture.green_does(), Ok(Once::InProgress { unknown: false, .. })));
    fixture.clock.advance(Duration::from_millis(1));
    assert_ran(&fixture.green_does(), 1);
    drop(work);
}
