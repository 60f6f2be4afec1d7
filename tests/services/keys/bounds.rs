//! Names that are too long or invalid.

use axum::{Router, routing::get};
use tower_redlock::key;

use crate::keys::fixture::{expect, locked, refused, resource};

#[tokio::test]
async fn overlong_name_is_a_bad_request() {
    let routes = || Router::new().route("/{*any}", get(resource));
    let long = |bytes: usize| format!("/{}", "x".repeat(bytes));
    let app = routes().route_layer(locked(key::path_segment(0)));
    expect(&app, &long(512), &long(512)[1..]).await;
    let text = "a resource's name has at most 512 bytes, this one has 513; nothing was done";
    assert_eq!(refused(&app, &long(513)).await, text);
    let text = "a resource's name has a control character at byte 1; nothing was done";
    assert_eq!(refused(&app, "/a%00").await, text);
    let text = "segment 0 of the path (from 0) is not UTF-8; nothing was done";
    assert_eq!(refused(&app, "/%FF").await, text);

    let hashed = routes().route_layer(locked(key::path_segment(0).hashed().prefixed("x:")));
    let (status, name) = crate::keys::fixture::get(&hashed, &long(4_000)).await;
    assert_eq!((status.as_u16(), name.len()), (200, "x:".len() + 64));
}

#[tokio::test]
async fn request_without_optional_key_runs_unguarded() {
    let app = Router::new()
        .route("/", get(resource))
        .route_layer(locked(key::query("id").optional().prefixed("x:")));
    expect(&app, "/", "unguarded").await;
    expect(&app, "/?id=1", "x:1").await;
    assert_eq!(refused(&app, "/?id=").await, "the query's parameter id is empty; nothing was done");
}
