//! The statuses over gRPC, as the headers of a response.

use std::{convert::Infallible, future::pending};

use axum::{
    body::Body,
    http::{Request, Response},
};
use tonic::{Code, Status};
use tonic_types::StatusExt;
use tower::{Layer, Service, ServiceExt, service_fn};
use tower_redlock::{FencingLayer, key, reject::RequestOutcome};

fn request(token: &[&str]) -> Request<Body> {
    let mut request = Request::post("/storage.Files/Put").header("file", "a");
    for token in token {
        request = request.header("fencing-token", *token);
    }
    request.body(Body::empty()).unwrap()
}

fn status<B>(response: &Response<B>) -> Status {
    Status::from_header_map(response.headers()).expect("a status")
}

#[tokio::test]
async fn each_token_error_has_its_status() {
    let service =
        FencingLayer::new(key::header("file")).grpc().layer(service_fn(|_: Request<Body>| async {
            Ok::<_, Infallible>(Response::new(Body::empty()))
        }));
    let send = async |request| service.clone().oneshot(request).await.unwrap();
    let passed = send(request(&["8"])).await;
    assert!(Status::from_header_map(passed.headers()).is_none());

    let stale = send(request(&["7"])).await;
    assert_eq!(stale.status(), 200);
    assert_eq!(stale.headers()["content-type"], "application/grpc");
    assert_eq!(RequestOutcome::of(&stale), Some(RequestOutcome::Refused));
    let stale = status(&stale);
    assert_eq!(stale.code(), Code::FailedPrecondition);
    let info = stale.get_details_error_info().unwrap();
    assert_eq!((info.reason.as_str(), info.domain.as_str()), ("STALE_TOKEN", "tower-redlock"));
    assert_eq!(info.metadata["outcome"], "not-run");

    for tokens in [&[][..], &["x"], &["0"], &["1", "1"]] {
        let invalid = status(&send(request(tokens)).await);
        assert_eq!(invalid.code(), Code::InvalidArgument, "{tokens:?}");
    }
    let unnamed = Request::post("/").header("fencing-token", "9").body(Body::empty()).unwrap();
    assert_eq!(status(&send(unnamed).await).code(), Code::InvalidArgument);
}

#[tokio::test]
async fn overtaken_method_has_unknown_outcome() {
    let mut service = FencingLayer::new(key::header("file")).grpc().layer(service_fn(
        |request: Request<Body>| async move {
            if request.headers()["fencing-token"] == "1" {
                pending::<()>().await;
            }
            Ok::<_, Infallible>(Response::new(Body::empty()))
        },
    ));
    let old = service.call(request(&["1"]));
    service.call(request(&["2"])).await.unwrap();

    let overtaken = old.await.unwrap();

    assert_eq!(RequestOutcome::of(&overtaken), Some(RequestOutcome::Unknown));

    let overtaken = status(&overtaken);
    assert_eq!(overtaken.code(), Code::FailedPrecondition);
    assert_eq!(overtaken.get_details_error_info().unwrap().metadata["outcome"], "unknown");
}
