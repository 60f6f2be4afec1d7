//! Bodies polled manually: ends that gRPC servers do not produce, and their records.

use std::{
    collections::VecDeque,
    convert::Infallible,
    future::{Ready, poll_fn, ready},
    io,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::FutureExt;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body::{Body, Frame};
use tower::{Layer, Service, ServiceExt, service_fn};
use tower_redlock::{
    OnceLayer, Redlock,
    once::{
        Always, OnceState, UnknownOutcome,
        grpc::{OnceGrpc, OnceGrpcBody},
    },
};

use super::site::HOUR;
use crate::support::eventually_async;

struct Frames(VecDeque<io::Result<Frame<Bytes>>>);

impl Body for Frames {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Poll::Ready(self.0.pop_front())
    }
}

#[expect(clippy::unnecessary_wraps, reason = "as a body says it")]
fn data() -> io::Result<Frame<Bytes>> {
    Ok(Frame::data(Bytes::from_static(b"data")))
}

fn status(code: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(
        http::HeaderName::from_static("grpc-status"),
        HeaderValue::from_static(code),
    )])
}

#[expect(clippy::unnecessary_wraps, reason = "as a body says it")]
fn trailers(trailers: HeaderMap) -> io::Result<Frame<Bytes>> {
    Ok(Frame::trailers(trailers))
}

fn layer<K>(redlock: &Redlock, key: K) -> OnceLayer<K, Always, OnceGrpc> {
    OnceLayer::new(redlock.clone(), "orders", key).unknown(UnknownOutcome::Hold(HOUR)).grpc()
}

/// The answer of a service with these headers and this body, for the order 7.
async fn answer(
    redlock: &Redlock,
    headers: HeaderMap,
    frames: impl Into<VecDeque<io::Result<Frame<Bytes>>>>,
) -> Response<Pin<Box<OnceGrpcBody<Frames>>>> {
    let mut response = Response::new(Frames(frames.into()));
    *response.headers_mut() = headers;
    let response = Arc::new(Mutex::new(Some(response)));
    let service = service_fn(move |_: Request<()>| {
        let response = response.lock().unwrap().take().expect("called once");
        ready(Ok::<_, Infallible>(response))
    });
    let service = layer(redlock, |_: &Request<()>| "7").layer(service);
    service.oneshot(Request::new(())).await.unwrap().map(Box::pin)
}

async fn next(body: &mut Pin<Box<OnceGrpcBody<Frames>>>) -> Option<io::Result<Frame<Bytes>>> {
    poll_fn(|cx| body.as_mut().poll_frame(cx)).await
}

async fn state(redlock: &Redlock) -> Option<OnceState> {
    redlock.once_key("layer:orders:7").status().await.unwrap().map(|status| status.state)
}

#[tokio::test]
async fn trailers_come_when_they_are_recorded() {
    let redlock = Redlock::embedded();
    let frames = [data(), data(), trailers(status("0"))];

    let mut body = answer(&redlock, HeaderMap::new(), frames).await.into_body();

    for _ in 0..2 {
        assert!(next(&mut body).await.unwrap().unwrap().is_data());
        assert_eq!(state(&redlock).await, Some(OnceState::InProgress));
    }
    assert!(!body.is_end_stream());

    let trailers = next(&mut body).await.unwrap().unwrap().into_trailers().unwrap();
    assert_eq!(trailers, status("0"));
    assert_eq!(state(&redlock).await, Some(OnceState::Done));
    assert!(body.is_end_stream() && next(&mut body).await.is_none());
}

#[tokio::test]
async fn a_head_with_the_status_decides() {
    for (code, expected) in [
        ("0", Some(OnceState::Done)),
        ("3", None),
        ("13", Some(OnceState::Unknown)),
        ("none", Some(OnceState::Unknown)),
    ] {
        let redlock = Redlock::embedded();
        let response = answer(&redlock, status(code), []).await;
        assert_eq!(response.headers(), &status(code));
        assert_eq!(state(&redlock).await, expected, "{code}");
        assert!(next(&mut response.into_body()).await.is_none());
    }
}

#[tokio::test]
async fn end_without_status_is_unknown() {
    let failed = || Err(io::Error::other("on purpose"));
    for frames in
        [vec![], vec![data()], vec![data(), failed()], vec![data(), trailers(HeaderMap::new())]]
    {
        let redlock = Redlock::embedded();
        let mut expected = frames.iter().map(Result::is_ok).collect::<VecDeque<_>>();
        let mut body = answer(&redlock, HeaderMap::new(), frames).await.into_body();
        while let Some(frame) = next(&mut body).await {
            assert_eq!(Some(frame.is_ok()), expected.pop_front());
        }
        assert!(expected.is_empty(), "all of it goes out");
        assert_eq!(state(&redlock).await, Some(OnceState::Unknown));
    }
}

#[tokio::test]
async fn unpolled_body_is_drained() {
    let redlock = Redlock::embedded();
    let frames = [data(), data(), trailers(status("0"))];
    drop(answer(&redlock, HeaderMap::new(), frames).await);
    let done = async || state(&redlock).await == Some(OnceState::Done);
    eventually_async("it is recorded", done).await;
}

#[test]
fn outside_runtime_dropped_body_is_unknown() {
    let redlock = Redlock::embedded();
    let body = answer(&redlock, HeaderMap::new(), [data()]).now_or_never().expect("at once");
    drop(body);
    let state = state(&redlock).now_or_never().expect("at once");
    assert_eq!(state, Some(OnceState::Unknown));
}

/// The service was called, and may have had its effect.
#[tokio::test]
async fn error_of_service_has_an_unknown_outcome() {
    for (unknown, kept) in
        [(UnknownOutcome::Release, None), (UnknownOutcome::Hold(HOUR), Some(OnceState::Unknown))]
    {
        let redlock = Redlock::embedded();
        let failing = service_fn(|_: Request<()>| ready(Err::<Response<Frames>, _>("on purpose")));
        let service = layer(&redlock, |_: &Request<()>| "7").unknown(unknown).layer(failing);
        assert_eq!(service.oneshot(Request::new(())).await.unwrap_err(), "on purpose");
        assert_eq!(state(&redlock).await, kept, "{unknown:?}");
    }
}

/// A service that does not become ready.
#[derive(Clone)]
struct Unready;

impl Service<Request<()>> for Unready {
    type Response = Response<Frames>;
    type Error = &'static str;
    type Future = Ready<Result<Response<Frames>, &'static str>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        Poll::Ready(Err("not ready"))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        panic!("it is not ready")
    }
}

#[tokio::test]
async fn unready_service_frees_the_key() {
    for unknown in [UnknownOutcome::Release, UnknownOutcome::Hold(HOUR)] {
        let redlock = Redlock::embedded();
        let service = layer(&redlock, |_: &Request<()>| "7").unknown(unknown).layer(Unready);
        assert_eq!(service.oneshot(Request::new(())).await.unwrap_err(), "not ready");
        assert_eq!(state(&redlock).await, None, "{unknown:?}");
    }
}
