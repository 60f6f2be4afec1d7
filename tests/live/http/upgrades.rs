//! Locks of upgraded connections, on a manual clock.

use std::{
    convert::Infallible,
    future::{pending, ready},
    pin::pin,
    sync::{Arc, Mutex},
    task::Poll,
};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, Version};
use http_body::Body;
use http_body_util::{BodyExt, Empty};
use tower::{Layer, Service, service_fn};
use tower_redlock::{
    LockError,
    layer::http::{BodyError, HeldUpgrade, HttpBody},
};

use crate::http::fixture::{Fixture, VALIDITY, poll};

/// Returns the status of a response by a handler that takes the handle, and the handle.
fn answered(
    fixture: &Fixture,
    method: Method,
    status: StatusCode,
) -> (StatusCode, Option<HeldUpgrade>) {
    let taken = Arc::new(Mutex::new(None));
    let given = Arc::clone(&taken);
    let handler = service_fn(move |request: Request<()>| {
        *given.lock().unwrap() = HeldUpgrade::take(request.extensions());
        assert!(HeldUpgrade::take(request.extensions()).is_none(), "there is one");
        let mut response = Response::new(Empty::<Bytes>::new());
        *response.status_mut() = status;
        ready(Ok::<_, Infallible>(response))
    });
    let mut service = fixture.layer().hold_upgrade(true).layer(handler);
    let request = Request::builder().method(method).uri("/").body(()).unwrap();
    let Poll::Ready(Ok(response)) = poll(pin!(service.call(request))) else { panic!() };
    let handle = taken.lock().unwrap().take();
    (response.status(), handle)
}

fn upgraded(fixture: &Fixture) -> HeldUpgrade {
    let (status, handle) = answered(fixture, Method::POST, StatusCode::SWITCHING_PROTOCOLS);
    assert_eq!(status, StatusCode::SWITCHING_PROTOCOLS);
    handle.expect("the request has a lock")
}

#[test]
fn a_handle_outlives_the_response() {
    let fixture = Fixture::new();
    let (status, handle) = answered(&fixture, Method::CONNECT, StatusCode::OK);
    assert_eq!(status, StatusCode::OK);
    assert!(fixture.is_held());
    drop(handle);
    assert!(fixture.is_free());
}

#[test]
fn work_is_dropped_at_the_end() {
    let fixture = Fixture::new();
    let inside = Arc::new(());
    let count = Arc::clone(&inside);

    let mut run = pin!(upgraded(&fixture).run(async move |_| {
        pending::<()>().await;
        drop(count);
    }));

    assert!(poll(run.as_mut()).is_pending());
    assert!(fixture.is_held() && Arc::strong_count(&inside) == 2);

    fixture.clock.advance(VALIDITY);
    let end = poll(run.as_mut());
    assert!(matches!(end, Poll::Ready(Err(LockError::Lost { .. }))), "{end:?}");
    assert_eq!(Arc::strong_count(&inside), 1);
}

#[test]
fn work_does_not_begin_after_the_end() {
    let fixture = Fixture::new();
    let handle = upgraded(&fixture);
    fixture.clock.advance(VALIDITY);
    assert!(handle.context().ensure_valid().is_err());
    let end = poll(pin!(handle.run(async |_| panic!("it is lost"))));
    assert!(matches!(end, Poll::Ready(Err(LockError::Lost { .. }))), "{end:?}");
}

#[test]
fn work_that_ends_releases_the_lock() {
    let fixture = Fixture::new();
    let end = poll(pin!(upgraded(&fixture).run(async |cx| cx.ensure_valid().is_ok())));
    assert_eq!(end, Poll::Ready(Ok(true)));
    assert!(fixture.is_free());
}

#[test]
fn requests_without_lock_have_no_handle() {
    let fixture = Fixture::new();
    let (status, handle) = answered(&fixture, Method::GET, StatusCode::SWITCHING_PROTOCOLS);
    assert_eq!(status, StatusCode::SWITCHING_PROTOCOLS, "it passes");
    assert!(handle.is_none());
}

/// The response to a request whose lock was lost while it ran, by a closure that sets the
/// response's length.
fn lost(request: Request<()>) -> Response<HttpBody<Empty<Bytes>>> {
    let fixture = Fixture::new();
    let layer = fixture.layer().on_reject(|_| {
        Response::builder().status(500).header("content-length", 4).body("lost".into()).unwrap()
    });
    let clock = &fixture.clock;
    let mut service = layer.layer(service_fn(move |_: Request<()>| {
        clock.advance(VALIDITY);
        ready(Ok::<_, Infallible>(Response::new(Empty::new())))
    }));
    let Poll::Ready(Ok(answer)) = poll(pin!(service.call(request))) else { panic!() };
    assert!(fixture.is_free());
    answer
}

#[tokio::test]
async fn response_to_possible_upgrade_fails_last() {
    let post = || Request::post("/").version(Version::HTTP_11);
    let connect = || Request::builder().method(Method::CONNECT).uri("/");
    let requests = [
        (post(), false),
        (post().header("upgrade", "websocket"), true),
        (connect().version(Version::HTTP_11), true),
        // A stream that is not upgraded is dropped with its response.
        (connect().version(Version::HTTP_2), false),
    ];

    for (request, fails) in requests {
        let request = request.body(()).unwrap();
        let asked = format!("{request:?}");
        let (head, mut body) = lost(request).into_parts();
        // The length counts the bytes, plus one that is never sent.
        assert_eq!(body.size_hint().exact(), Some(4 + u64::from(fails)), "{asked}");
        assert_eq!(head.headers.contains_key("content-length"), !fails, "{asked}");
        assert_eq!(head.headers.contains_key("connection"), fails, "{asked}");
        let data = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(data, "lost", "{asked}");
        assert_eq!(body.is_end_stream(), !fails, "{asked}");
        let end = body.frame().await;
        assert_eq!(matches!(end, Some(Err(BodyError::NotUpgraded))), fails, "{asked}: {end:?}");
        assert!(body.frame().await.is_none() && body.is_end_stream());
    }
}
