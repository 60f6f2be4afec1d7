//! The end of a body, and of its lock immediately afterwards.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{Arc, Mutex, atomic::Ordering},
    task::Poll,
};

use http::{Method, Request, Response, StatusCode};
use http_body::Body;
use tower_redlock::{
    LockContext, LockError,
    layer::http::{BodyError, HttpBody},
    node::Op,
};

use super::scripted::{Broken, Scripted, Step, frame};
use crate::http::fixture::{Fixture, Flag, NANO, VALIDITY, answer};
use crate::support::mock_node::MockNode;

/// A scene that records its releases, and a flag for its body.
fn watched() -> (Fixture, Flag, Arc<Mutex<Vec<bool>>>) {
    let (flag, is_dropped) = Flag::new();
    let releases = Arc::<Mutex<Vec<bool>>>::default();
    let watched = |inner| {
        let (is_dropped, releases) = (Arc::clone(&is_dropped), Arc::clone(&releases));
        MockNode::observing(&inner, move |op| {
            if matches!(op, Op::Release(_)) {
                releases.lock().unwrap().push(is_dropped.load(Ordering::SeqCst));
            }
        })
    };
    (Fixture::new().over(|builder| builder, watched), flag, releases)
}

fn data() -> Step {
    Step::Data(b"data".to_vec())
}

fn next(body: &mut HttpBody<Scripted>) -> super::scripted::Frames<BodyError<Broken>> {
    frame(Pin::new(body))
}

#[test]
fn last_frame_releases_after_the_body() {
    let ends = [
        vec![data(), data()],
        vec![data(), Step::Trailers(1)],
        vec![Step::Trailers(1)],
        vec![data(), Step::Error],
    ];
    for steps in ends {
        let (fixture, flag, releases) = watched();
        let script =
            Scripted { tells_its_end: true, dropped: Some(flag), ..Scripted::new(steps.clone()) };
        let mut body = fixture.through(script);
        for step in 1..steps.len() {
            assert!(next(&mut body).is_ready());
            assert!(fixture.is_held(), "after frame {step} of {steps:?}");
        }
        assert!(next(&mut body).is_ready());
        assert_eq!(*releases.lock().unwrap(), [true; 5], "{steps:?}");
        assert!(fixture.is_free(), "{steps:?}");
        assert!(matches!(next(&mut body), Poll::Ready(None)));
    }
}

#[test]
fn unannounced_end_releases() {
    let (fixture, flag, releases) = watched();
    let script = Scripted { dropped: Some(flag), ..Scripted::new([data(), Step::Pending]) };
    let mut body = fixture.through(script);
    assert!(next(&mut body).is_ready());
    assert!(next(&mut body).is_pending());
    assert!(fixture.is_held());
    assert!(matches!(next(&mut body), Poll::Ready(None)));
    assert_eq!(*releases.lock().unwrap(), [true; 5]);
}

#[test]
fn empty_body_releases_with_the_response() {
    let (fixture, flag, releases) = watched();
    let script = Scripted { tells_its_end: true, dropped: Some(flag), ..Scripted::new([]) };
    let body = fixture.through(script);
    assert_eq!(*releases.lock().unwrap(), [true; 5]);
    assert!(body.is_end_stream());
    assert_eq!(body.size_hint().exact(), None, "as the body said");
}

#[test]
fn dropped_body_releases() {
    for polls in 0..2 {
        let (fixture, flag, releases) = watched();
        let script = Scripted { dropped: Some(flag), ..Scripted::new([data(), data()]) };
        let mut body = fixture.through(script);
        for _ in 0..polls {
            assert!(next(&mut body).is_ready());
        }
        assert!(fixture.is_held());
        drop(body);
        assert_eq!(*releases.lock().unwrap(), [true; 5]);
        assert!(fixture.is_free());
    }
}

#[test]
fn panicked_body_releases_on_drop() {
    let (fixture, flag, releases) = watched();
    let mut body =
        fixture.through(Scripted { dropped: Some(flag), ..Scripted::new([Step::Panic]) });
    catch_unwind(AssertUnwindSafe(|| next(&mut body))).unwrap_err();
    assert!(LockContext::current().is_none());
    drop(body);
    assert_eq!(*releases.lock().unwrap(), [true; 5]);
}

#[test]
fn overlong_body_is_cut() {
    let (fixture, flag, releases) = watched();
    let script = Scripted {
        tells_its_end: true,
        tells_its_size: true,
        dropped: Some(flag),
        ..Scripted::new([data(), data(), Step::Panic])
    };

    let mut body = fixture.through(script);

    assert!(next(&mut body).is_ready());

    fixture.clock.advance(VALIDITY.saturating_sub(NANO));
    assert!(next(&mut body).is_ready(), "there is a nanosecond left");

    fixture.clock.advance(NANO);
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
fn each_poll_of_body_has_context() {
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

    let fixture = Fixture::new();
    let mut body = fixture.through(Names);
    let Poll::Ready(Some(Ok(polled))) = frame(Pin::new(&mut body)) else { panic!() };
    assert_eq!(polled.into_data().unwrap(), "x");
    assert!(LockContext::current().is_none());
}

#[test]
fn unheld_body_outlives_the_lock() {
    let fixture = Fixture::new();
    let layer = fixture.layer().hold_body(false);
    let request = Request::post("/").body(()).unwrap();
    let response = Response::new(Scripted::new([data(), data()]));
    let mut body = answer(&layer, request, response).into_body();
    assert!(fixture.is_free());
    fixture.clock.advance(VALIDITY * 2);
    assert!(matches!(next(&mut body), Poll::Ready(Some(Ok(_)))));
}

#[test]
fn upgrade_passes_only_without_hold() {
    let upgrades = [
        (Method::POST, StatusCode::SWITCHING_PROTOCOLS, true),
        (Method::CONNECT, StatusCode::OK, true),
        (Method::CONNECT, StatusCode::BAD_GATEWAY, false),
        (Method::POST, StatusCode::OK, false),
    ];
    for (method, status, is_upgrade) in upgrades {
        let (fixture, flag, releases) = watched();
        let request = || Request::builder().method(method.clone()).uri("/").body(()).unwrap();
        let respond = |dropped| {
            let body = Scripted { dropped, ..Scripted::new([data(), data()]) };
            let mut response = Response::new(body);
            *response.status_mut() = status;
            response
        };
        let held = answer(&fixture.layer(), request(), respond(Some(flag)));
        let expected = if is_upgrade { StatusCode::INTERNAL_SERVER_ERROR } else { status };
        assert_eq!(held.status(), expected, "{method} {status}");
        assert_eq!(fixture.is_held(), !is_upgrade, "{method} {status}");
        drop(held);
        assert_eq!(*releases.lock().unwrap(), [true; 5], "behind the response: {method} {status}");
        let passed = answer(&fixture.layer().hold_body(false), request(), respond(None));
        assert_eq!(passed.status(), status);
        assert!(fixture.is_free());
    }
}
