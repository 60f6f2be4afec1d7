//! Requests for which a router has no route: a layer around it passes on the 404, or responds
//! itself, and nothing is recorded.

use axum::{Router, body::Body, extract::Request, http::StatusCode, routing::post};
use tower::ServiceExt;
use tower_redlock::{
    OnceLayer, Redlock, RedlockLayer,
    key::{self, Key, Source},
    once::http::Scope,
};

const LAYERS: [&str; 4] = ["lock", "webhooks", "by body", "idempotency"];

fn routes() -> Router {
    Router::new().route("/accounts/{id}", post(async || "done"))
}

/// The routes inside a layer with this kind and key, which is around all of them.
fn around<S: Source + Clone + Send + Sync + 'static>(
    kind: &str,
    redlock: &Redlock,
    key: Key<S>,
) -> Router {
    let redlock = redlock.clone();
    match kind {
        "lock" => routes().layer(RedlockLayer::new(redlock, key).http()),
        "webhooks" => routes().layer(OnceLayer::new(redlock, "hooks", key).http()),
        "by body" => routes().layer(OnceLayer::by_body(redlock, "hooks", key)),
        _ => routes().layer(OnceLayer::idempotency(redlock, "pay").scope(key)),
    }
}

fn request(path: &str, with_keys: bool) -> Request {
    let mut request = Request::post(path);
    if with_keys {
        request = request.header("x-id", "7").header("idempotency-key", "k");
    }
    request.body(Body::empty()).unwrap()
}

async fn status(app: &Router, request: Request) -> StatusCode {
    app.clone().oneshot(request).await.unwrap().status()
}

#[tokio::test]
async fn keyed_404_passes_and_frees_key() {
    for kind in LAYERS {
        let redlock = Redlock::embedded();
        let app = around(kind, &redlock, key::header("x-id"));
        assert_eq!(status(&app, request("/nowhere", true)).await, 404, "{kind}");
        assert_eq!(redlock.lock("7").await.map(drop), Ok(()), "{kind}");
        assert_eq!(redlock.once_key("layer:hooks:7").status().await, Ok(None), "{kind}");
        assert_eq!(status(&app, request("/accounts/1", false)).await, 400, "{kind}");
    }
}

#[tokio::test]
async fn optional_key_leaves_the_404() {
    for kind in LAYERS {
        let app = around(kind, &Redlock::embedded(), key::header("x-id").optional());
        assert_eq!(status(&app, request("/nowhere", false)).await, 404, "{kind}");
    }
}

#[tokio::test]
async fn a_routes_parameter_leaves_the_404() {
    for kind in LAYERS {
        let app = around(kind, &Redlock::embedded(), key::path_param("id"));
        for with_keys in [true, false] {
            assert_eq!(status(&app, request("/nowhere", with_keys)).await, 404, "{kind}");
        }
        assert_eq!(status(&app, request("/accounts/1", true)).await, 200, "{kind}");
    }
}

/// The layer can't know the routes, as the router's fallback may be a service with its own routes.
#[tokio::test]
async fn missing_key_precedes_the_404() {
    for kind in LAYERS {
        let app = around(kind, &Redlock::embedded(), key::header("x-id"));
        assert_eq!(status(&app, request("/nowhere", false)).await, 400, "{kind}");
    }
}

/// As with any layer that responds itself: see `Router::route_layer`.
#[tokio::test]
async fn route_layer_leaves_the_404() {
    let redlock = Redlock::embedded();
    let key = || key::header("x-id");

    let apps = [
        routes().route_layer(RedlockLayer::new(redlock.clone(), key()).http()),
        routes().route_layer(OnceLayer::new(redlock.clone(), "hooks", key()).http()),
        routes().route_layer(OnceLayer::by_body(redlock.clone(), "hooks", key())),
        routes().route_layer(OnceLayer::idempotency(redlock.clone(), "pay").scope(Scope::none())),
    ];

    for (app, kind) in apps.iter().zip(LAYERS) {
        assert_eq!(status(app, request("/nowhere", false)).await, 404, "{kind}");
        assert_eq!(status(app, request("/accounts/1", false)).await, 400, "{kind}");
        assert_eq!(status(app, request("/accounts/1", true)).await, 200, "{kind}");
    }
}
