//! Keys from the path, at each position of the layer.

use axum::{
    Router,
    body::Body,
    extract::{Path, Request},
    routing::{any, get},
};
use tower::{Layer, ServiceExt};
use tower_redlock::key;

use crate::keys::fixture::{expect, locked, misplaced, refused, resource, resource_and_param};

#[tokio::test]
async fn parameter_equals_the_handlers() {
    let id = || locked(key::path_param("id"));
    let routes = || Router::new().route("/accounts/{id}/x", any(resource_and_param));
    let places = [
        ("route_layer", routes().route_layer(id())),
        ("layer", routes().layer(id())),
        (
            "method router",
            Router::new().route("/accounts/{id}/x", get(resource_and_param).layer(id())),
        ),
        (
            "nested",
            Router::new().nest(
                "/accounts",
                Router::new().route("/{id}/x", get(resource_and_param)).route_layer(id()),
            ),
        ),
        (
            "outside of the nested",
            Router::new()
                .nest("/accounts", Router::new().route("/{id}/x", get(resource_and_param)))
                .route_layer(id()),
        ),
        (
            "parameter in the prefix",
            Router::new().nest(
                "/accounts/{id}",
                Router::new().route("/x", get(resource_and_param)).route_layer(id()),
            ),
        ),
        (
            "nested service",
            Router::new().nest_service(
                "/accounts",
                Router::new().route("/{id}/x", get(resource_and_param)).route_layer(id()),
            ),
        ),
    ];

    for (place, app) in places {
        println!("{place}");
        for (sent, seen) in [
            ("42", "42"),
            ("%34%32", "42"),
            ("%2534", "%34"),
            ("a%2Fb", "a/b"),
            ("%C3%A4", "ä"),
            ("100%", "100%"),
            ("a+b", "a+b"),
        ] {
            expect(&app, &format!("/accounts/{sent}/x?q=1"), &format!("{seen} twice")).await;
        }
    }
}

/// Otherwise a client could evade the lock by another spelling.
#[tokio::test]
async fn number_spellings_are_one_name() {
    let number = async |Path(id): Path<u64>| format!("{id} under {}", resource().await);
    let app = Router::new()
        .route("/accounts/{id}", get(number))
        .route_layer(locked(key::path_param("id").parsed::<u64>().prefixed("account:")));
    for id in ["42", "042", "+42", "%2b0%342"] {
        expect(&app, &format!("/accounts/{id}"), "42 under account:42").await;
    }

    let text = "the lock key in this request is malformed; nothing was done";

    assert_eq!(refused(&app, "/accounts/x").await, text);
}

#[tokio::test]
async fn rest_of_path_is_parameter_too() {
    let files = Router::new()
        .route("/{bucket}/{*rest}", get(resource_and_param))
        .route_layer(locked(key::path_param("rest")));
    let app = Router::new().nest("/files", files);
    expect(&app, "/files/b/a/%62/c", "a/b/c twice").await;
}

#[tokio::test]
async fn segment_counts_in_the_sent_path() {
    let second = || locked(key::path_segment(2));
    let inner = Router::new().route("/{id}", get(resource)).route_layer(second());
    let app = Router::new().nest("/v1", Router::new().nest("/accounts", inner));
    expect(&app, "/v1/accounts/%34%32", "42").await;
    let service = Router::new().nest_service("/v1/accounts", second().layer(get(resource)));
    expect(&service, "/v1/accounts/%34%32", "42").await;
    let path =
        Router::new().route("/{id}", get(resource)).route_layer(locked(key::method_and_path()));

    expect(&Router::new().nest("/v1", path), "/v1/%61?q", "GET /v1/a").await;
}

#[tokio::test]
async fn missing_parameter_error_explains() {
    let routes =
        || Router::new().route("/a/{id}", get(resource)).route("/b/{other}", get(resource));
    let app = routes().route_layer(locked(key::path_param("id")));
    expect(&app, "/a/1", "1").await;
    // The cause is logged only, as the client can't correct it.
    let detail = misplaced(&app, "/b/1").await;
    assert!(!detail.contains("parameter"), "{detail}");
    let app = routes().route_layer(locked(key::path_param("id").optional()));
    expect(&app, "/b/1", "unguarded").await;

    // Around the router, even an optional key must not let every request pass.
    let around = locked(key::path_param("id").optional()).layer(routes());
    let response = around.oneshot(Request::get("/a/1").body(Body::empty()).unwrap()).await;
    assert_eq!(response.unwrap().status(), 500);
    // Nested, or as a fallback, the inner router may have routes: none of them may run unguarded.
    let around = locked(key::path_param("id").optional()).layer(routes());
    let nested = Router::new().nest_service("/v1", around.clone());
    misplaced(&nested, "/v1/a/1").await;
    let fallback = Router::new().route("/c", get(resource)).fallback_service(around);
    assert_eq!(crate::keys::fixture::get(&fallback, "/a/1").await.0, 404);
}

#[tokio::test]
async fn path_without_route_stays_not_found() {
    let routes = Router::new().route("/a/{id}", get(resource));
    let app = routes.layer(locked(key::path_param("id")));
    let (status, body) = crate::keys::fixture::get(&app, "/nowhere").await;
    assert_eq!(status, 404, "{body}");
    let problem: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!((&problem["code"], &problem["outcome"]), (&"not-found".into(), &"not-run".into()));
}

/// The handler's extractor may take another value.
#[tokio::test]
async fn repeated_parameter_name_is_refused() {
    let accounts = || Router::new().route("/{id}", get(resource_and_param));
    let layer = locked(key::path_param("id"));
    let app = Router::new().nest("/tenants/{id}", accounts()).route_layer(layer);
    misplaced(&app, "/tenants/1/2").await;
    let optional = locked(key::path_param("id").optional());
    let app = Router::new().nest("/tenants/{id}", accounts()).route_layer(optional);
    misplaced(&app, "/tenants/1/2").await;
}
