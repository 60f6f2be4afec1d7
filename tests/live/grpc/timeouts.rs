//! Requests with a timeout that the caller sets.

use std::convert::Infallible;

use http::{Request, Response};
use http_body_util::Empty;
use tonic::{Code, Status};
use tower::{Layer, ServiceExt, service_fn};
use tower_redlock::{Redlock, RedlockLayer};

use crate::support::HANG_GUARD;

/// A server without its own timeout, or a client's side of the connection.
#[tokio::test]
async fn wait_ends_with_callers_timeout() {
    let redlock = Redlock::embedded();
    let _held = redlock.lock("7").await.unwrap();
    let layer = RedlockLayer::new(redlock, |_: &Request<()>| "7").wait(HANG_GUARD * 10).grpc();
    let method = service_fn(async |_: Request<()>| {
        Ok::<_, Infallible>(Response::new(Empty::<bytes::Bytes>::new()))
    });
    let request = Request::post("/").header("grpc-timeout", "100m").body(()).unwrap();
    let call = layer.layer(method).oneshot(request);
    let response = tokio::time::timeout(HANG_GUARD, call).await.expect("in time").unwrap();

    let status = Status::from_header_map(response.headers()).expect("a status");

    assert_eq!(status.code(), Code::Aborted, "{status:?}");
}
