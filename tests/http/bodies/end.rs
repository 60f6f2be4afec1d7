//! How a body ends, and that its lock ends right behind it.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{Arc, Mutex, atomic::Ordering},
    task::Poll,
};

use http::{Method, Request, Response, StatusCode};
use http_body::Body;
use tower_redlock::{
    EmbeddedNodes, LockContext, LockError, RedlockBuilder,
    layer::http::{BodyError, HttpBody},
    node::Op,
};

use super::scripted::{Broken, Scripted, Step, frame};
use crate::support::mock_node::MockNode;
use crate::{
    bench::{Bench, answer},
    tools::{Flag, HandClock, VALIDITY, builder, just_before},
};

/// A bench whose releases are written down, and a flag for its body.
fn watched() -> (Bench, Flag, Arc<Mutex<Vec<bool>>>) {
    let clock = HandClock::unwatched();
    let (flag, is_dropped) = Flag::new();
    let releases = Arc::<Mutex<Vec<bool>>>::default();
    let nodes = EmbeddedNodes::with_clock(5, clock.clone());
    let watched = |inner| {
        let (is_dropped, releases) = (Arc::clone(&is_dropped), Arc::clone(&releases));
        MockNode::observing(&inner, move |op| {
            if matches!(op, Op::Release(_)) {
                releases.lock().unwrap().push(is_dropped.load(Ordering::SeqCst));
            }
        })
    };
    let redlock = nodes.nodes("redlock").map(watched).fold(builder(&clock), RedlockBuilder::node);
    (Bench { clock, redlock: redlock.build().unwrap(), nodes }, flag, releases)
}

fn data() -> Step {
    Step::Data(b"data".to_vec())
}

fn next(body: &mut HttpBody<Scripted>) -> super::scripted::Frames<BodyError<Broken>> {
    frame(Pin::new(body))
}

#[test]
fn the_lock_goes_with_the_last_frame_and_behind_the_body() {
    let ends = [
        vec![data(), data()],
        vec![data(), Step::Trailers(1)],
        vec![Step::Trailers(1)],
        vec![data(), Step::Error],
    ];
    for steps in ends {
        let (bench, flag, releases) = watched();
        let script =
            Scripted { tells_its_end: true, dropped: Some(flag), ..Scripted::new(steps.clone()) };
        let mut body = bench.through(script);
        for step in 1..steps.len() {
            assert!(next(&mut body).is_ready());
            assert!(bench.is_held(), "after frame {step} of {steps:?}");
        }
        assert!(next(&mut body).is_ready());
        assert_eq!(*releases.lock().unwrap(), [true; 5], "{steps:?}");
        assert!(bench.is_free(), "{steps:?}");
        assert!(matches!(next(&mut body), Poll::Ready(None)));
    }
}

#[test]
fn the_lock_of_a_body_that_does_not_know_its_end_goes_when_it_is_found() {
    let (bench, flag, releases) = watched();
    let script = Scripted { dropped: Some(flag), ..Scripted::new([data(), Step::Pending]) };
    let mut body = bench.through(script);
    assert!(next(&mut body).is_ready());
    assert!(next(&mut body).is_pending());
    assert!(bench.is_held());
    assert!(matches!(next(&mut body), Poll::Ready(None)));
    assert_eq!(*releases.lock().unwrap(), [true; 5]);
}

#[test]
fn the_lock_of_an_empty_body_goes_with_the_response() {
    let (bench, flag, releases) = watched();
    let script = Scripted { tells_its_end: true, dropped: Some(flag), ..Scripted::new([]) };
    let body = bench.through(script);
    assert_eq!(*releases.lock().unwrap(), [true; 5]);
    assert!(body.is_end_stream());
    assert_eq!(body.size_hint().exact(), None, "as the body said");
}

#[test]
fn a_dropped_body_gives_the_lock_back_polled_or_not() {
    for polls in 0..2 {
        let (bench, flag, releases) = watched();
        let script = Scripted { dropped: Some(flag), ..Scripted::new([data(), data()]) };
        let mut body = bench.through(script);
        for _ in 0..polls {
            assert!(next(&mut body).is_ready());
        }
        assert!(bench.is_held());
        drop(body);
        assert_eq!(*releases.lock().unwrap(), [true; 5]);
        assert!(bench.is_free());
    }
}

#[test]
fn a_body_that_panics_gives_the_lock_back_when_it_is_dropped() {
    let (bench, flag, releases) = watched();
    let mut body = bench.through(Scripted { dropped: Some(flag), ..Scripted::new([Step::Panic]) });
    catch_unwind(AssertUnwindSafe(|| next(&mut body))).unwrap_err();
    assert!(LockContext::current().is_none());
    drop(body);
    assert_eq!(*releases.lock().unwrap(), [true; 5]);
}

#[test]
fn a_body_that_outlives_the_lock_is_cut_with_an_error_and_not_polled_again() {
    let (bench, flag, releases) = watched();
    let script = Scripted {
        tells_its_end: true,
        tells_its_size: true,
        dropped: Some(flag),
        ..Scripted::new([data(), data(), Step::Panic])
    };
    let mut body = bench.through(script);
    assert!(next(&mut body).is_ready());
    bench.clock.advance(just_before(VALIDITY));
    assert!(next(&mut body).is_ready(), "there is a nanosecond left");
    bench.clock.advance(crate::tools::NANO);
    assert!(next(&mut body).is_pending(), "the server sends what it has");
    assert_eq!(*releases.lock().unwrap(), [true; 5]);
    assert!(!body.is_end_stream());
    let Poll::Ready(Some(Err(error))) = next(&mut body) else { panic!("not cut") };
    assert!(matches!(error, BodyError::Lost(LockError::Lost { .. })), "{error:?}");
    assert!(error.to_string().starts_with("the response was cut: "), "{error}");
    assert!(body.is_end_stream());
    assert!(matches!(next(&mut body), Poll::Ready(None)));
}

#[test]
fn a_body_finds_its_context_in_each_poll() {
    struct Names;

    impl Body for Names {
        type Data = bytes::Bytes;
        type Error = Broken;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> super::scripted::Frames<Broken> {
            let name = LockContext::current().map(|cx| cx.resource().to_string());
            let frame = http_body::Frame::data(name.unwrap_or_default().into());
            Poll::Ready(Some(Ok(frame)))
        }
    }

    let bench = Bench::new();
    let mut body = bench.through(Names);
    let Poll::Ready(Some(Ok(polled))) = frame(Pin::new(&mut body)) else { panic!() };
    assert_eq!(polled.into_data().unwrap(), "x");
    assert!(LockContext::current().is_none());
}

#[test]
fn a_body_that_need_not_be_held_outlives_the_lock() {
    let bench = Bench::new();
    let layer = bench.layer().hold_body(false);
    let request = Request::post("/").body(()).unwrap();
    let response = Response::new(Scripted::new([data(), data()]));
    let mut body = answer(&layer, request, response).into_body();
    assert!(bench.is_free());
    bench.clock.advance(VALIDITY * 2);
    assert!(matches!(next(&mut body), Poll::Ready(Some(Ok(_)))));
}

#[test]
fn an_upgrade_passes_only_where_it_may_outlive_the_lock() {
    let upgrades = [
        (Method::POST, StatusCode::SWITCHING_PROTOCOLS, true),
        (Method::CONNECT, StatusCode::OK, true),
        (Method::CONNECT, StatusCode::BAD_GATEWAY, false),
        (Method::POST, StatusCode::OK, false),
    ];
    for (method, status, is_upgrade) in upgrades {
        let (bench, flag, releases) = watched();
        let request = || Request::builder().method(method.clone()).uri("/").body(()).unwrap();
        let respond = |dropped| {
            let body = Scripted { dropped, ..Scripted::new([data(), data()]) };
            let mut response = Response::new(body);
            *response.status_mut() = status;
            response
        };
        let held = answer(&bench.layer(), request(), respond(Some(flag)));
        let expected = if is_upgrade { StatusCode::INTERNAL_SERVER_ERROR } else { status };
        assert_eq!(held.status(), expected, "{method} {status}");
        assert_eq!(bench.is_held(), !is_upgrade, "{method} {status}");
        drop(held);
        assert_eq!(*releases.lock().unwrap(), [true; 5], "behind the response: {method} {status}");
        let passed = answer(&bench.layer().hold_body(false), request(), respond(None));
        assert_eq!(passed.status(), status);
        assert!(bench.is_free());
    }
}
