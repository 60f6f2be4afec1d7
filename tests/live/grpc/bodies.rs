//! The body of a response, polled manually: the frames that a transport gets, and when the lock is
//! released.

use std::{
    collections::VecDeque,
    convert::Infallible,
    future::{poll_fn, ready},
    pin::Pin,
    sync::Mutex,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::{Body, Frame, SizeHint};
use tonic::Status;
use tower::{Layer, ServiceExt, service_fn};
use tower_redlock::{Redlock, RedlockLayer, layer::grpc::GrpcBody};

use crate::grpc::site::{assert_lost, order_id};

const LONG: Duration = Duration::from_secs(60);

/// Reports its end with its last frame.
struct Frames(VecDeque<Frame<Bytes>>);

impl Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.len() as u64)
    }
}

fn data() -> Frame<Bytes> {
    Frame::data(Bytes::from_static(b"data"))
}

/// The answer of a service with this body, under the lock on order 7.
async fn answer(
    redlock: &Redlock,
    max_hold: Duration,
    frames: impl Into<VecDeque<Frame<Bytes>>>,
) -> Pin<Box<GrpcBody<Frames>>> {
    let frames = Mutex::new(Some(Frames(frames.into())));
    let service = service_fn(|_: Request<()>| {
        let body = frames.lock().unwrap().take().expect("called once");
        ready(Ok::<_, Infallible>(Response::new(body)))
    });
    let layer = RedlockLayer::new(redlock.clone(), order_id::<()>);
    let layer = layer.ttl(Duration::from_secs(1)).max_hold(max_hold).grpc();
    let mut request = Request::new(());
    request.headers_mut().insert("order-id", "7".parse().unwrap());
    Box::pin(layer.layer(service).oneshot(request).await.unwrap().into_body())
}

async fn next(body: &mut Pin<Box<GrpcBody<Frames>>>) -> Option<Frame<Bytes>> {
    let Ok(frame) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await.transpose();
    frame
}

#[tokio::test]
async fn last_frame_frees_the_order() {
    let redlock = Redlock::embedded();
    let frames = [data(), Frame::trailers(HeaderMap::new())];

    let mut body = answer(&redlock, LONG, frames).await;

    assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(2), false));
    assert!(next(&mut body).await.unwrap().is_data());
    assert!(redlock.lock("7").await.is_err(), "held");
    assert!(next(&mut body).await.unwrap().is_trailers());
    assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(0), true));

    drop(redlock.lock("7").await.expect("free"));
    assert!(next(&mut body).await.is_none());
}

#[tokio::test]
async fn empty_response_frees_order_unpolled() {
    let redlock = Redlock::embedded();
    let body = answer(&redlock, LONG, []).await;
    drop(redlock.lock("7").await.expect("free"));
    assert!(body.is_end_stream());
}

#[tokio::test]
async fn lost_lock_is_the_last_frame() {
    let redlock = Redlock::embedded();
    let max_hold = Duration::from_millis(500);
    let mut body = answer(&redlock, max_hold, [data()]).await;
    drop(redlock.lock("7").wait(LONG).await.expect("free when nobody renews"));
    let trailers = next(&mut body).await.unwrap().into_trailers().expect("no data any more");
    assert_lost(&Status::from_header_map(&trailers).expect("a status"));
    assert!(body.is_end_stream() && next(&mut body).await.is_none());
}
