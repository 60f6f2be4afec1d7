//! Work that ends without being done.

use std::{
    convert::Infallible,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use futures_util::FutureExt;
use tower_redlock::{Once, OnceError, OnceRequest, Unknown};

use super::scene::{HOUR, KEY, Scene, TTL, assert_ran};

/// The key is given back at once, without a trace, whatever is asked for where it is unknown.
fn frees_at_once(end: impl Fn(&Scene, OnceRequest)) {
    for unknown in [Unknown::Release, Unknown::Hold(HOUR)] {
        let scene = Scene::new(3);
        end(&scene, scene.at_blue.once(KEY).unknown(unknown));
        assert_eq!(scene.nodes.key_counts(), [0; 3]);
        let status = scene.at_green.once(KEY).status().now_or_never().unwrap().unwrap();
        assert_eq!(status, None);
        let runs = scene.runs.count();
        assert_ran(&scene.green_does(), runs + 1);
    }
}

#[test]
fn an_error_frees_the_key_at_once() {
    frees_at_once(|_, request| {
        let ended = request.run(|_| async { Err::<usize, _>("no stock") }).now_or_never().unwrap();
        assert_eq!(ended, Err(OnceError::Work("no stock")));
    });
}

fn panics() -> Result<usize, Infallible> {
    panic!("on purpose")
}

#[test]
fn a_panic_frees_the_key_at_once() {
    frees_at_once(|_, request| {
        let run = request.run(|_| async {
            std::future::ready(()).await;
            panics()
        });
        catch_unwind(AssertUnwindSafe(|| run.now_or_never())).unwrap_err();
    });
}

#[test]
fn a_panic_before_the_first_await_frees_the_key_at_once() {
    frees_at_once(|_, request| {
        let work = |_| -> std::future::Ready<Result<usize, Infallible>> { panic!("on purpose") };
        let run = request.run(work);
        catch_unwind(AssertUnwindSafe(|| run.now_or_never())).unwrap_err();
    });
}

#[test]
fn a_future_that_is_dropped_frees_the_key_at_once() {
    frees_at_once(|scene, request| {
        let runs = scene.runs.clone();
        let run = request.run(|_| async move {
            runs.run();
            std::future::pending::<Result<usize, Infallible>>().await
        });
        assert!(run.now_or_never().is_none(), "it is dropped here");
        assert_eq!(scene.runs.count(), 1, "it had begun");
    });
}

#[test]
fn a_crash_frees_the_key_after_the_ttl_and_not_after_the_retention() {
    let scene = Scene::new(3);
    let forever = std::future::pending::<Result<usize, Infallible>>();
    let work = scene.clock.spawn(scene.at_blue.once(KEY).run(|_| forever));
    scene.clock.settle();
    // As a crash does, it neither renews nor gives back.
    scene.blue.partition(0..3);
    scene.clock.advance(TTL.saturating_sub(Duration::from_millis(1)));
    assert!(matches!(scene.green_does(), Ok(Once::InProgress { unknown: false, .. })));
    scene.clock.advance(Duration::from_millis(1));
    assert_ran(&scene.green_does(), 1);
    drop(work);
}
