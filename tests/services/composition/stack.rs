//! A stack of many layers that handles requests.

use std::time::Duration;

use axum::body::Body;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use tower::{ServiceBuilder, ServiceExt};
use tower_http::{
    catch_panic::CatchPanicLayer,
    compression::CompressionLayer,
    cors::CorsLayer,
    limit::RequestBodyLimitLayer,
    timeout::{RequestBodyTimeoutLayer, ResponseBodyTimeoutLayer},
    trace::TraceLayer,
};
use tower_redlock::{FencingLayer, Redlock, RedlockLayer, fencing::DEFAULT_HEADER as TOKEN, key};

use crate::composition::echo::{Echo, is_served, payments};

#[tokio::test]
async fn responses_pass_and_locks_are_released() {
    const SECOND: Duration = Duration::from_secs(1);
    let redlock = Redlock::embedded();
    let stack = ServiceBuilder::new()
        // Its own body has no default, which CORS needs.
        .layer(RequestBodyLimitLayer::new(1 << 10))
        .layer(TraceLayer::new_for_http())
        .layer(CatchPanicLayer::new())
        .layer(CorsLayer::permissive())
        .layer(CompressionLayer::new())
        .layer(RequestBodyTimeoutLayer::new(SECOND))
        .layer(payments())
        .layer(
            RedlockLayer::new(redlock.clone(), key::method_and_path()).http().token_header(TOKEN),
        )
        .layer(FencingLayer::new(key::method_and_path()).http())
        .buffer(8)
        .load_shed()
        .timeout(SECOND)
        .layer(ResponseBodyTimeoutLayer::new(SECOND))
        .layer(CompressionLayer::new())
        .layer(CatchPanicLayer::new())
        .service(Echo);
    let stack = is_served(stack);
    for key in ["a", "b", "b"] {
        let request = Request::post("/pay").header("idempotency-key", key);
        let request = request.body(Body::from("7")).unwrap();
        let answer = stack.clone().oneshot(request).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        let body = answer.into_body().collect().await;
        assert_eq!(body.unwrap().to_bytes(), "done");
    }

    let free = redlock.lock("POST /pay").wait(SECOND).await;

    assert!(free.is_ok(), "{free:?}");
}
