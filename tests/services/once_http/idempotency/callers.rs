//! The scope of keys.

use axum::{Router, body::Body, routing::post};
use http::{HeaderMap, Request};
use tower_redlock::{
    OnceLayer, key,
    once::http::{Missing, Scope},
};

use super::requests::{layer, pay, pay_as};
use crate::once_http::fixture::{Fixture, Runs, serve};

fn app(runs: &Runs) -> Router {
    let runs = runs.clone();
    Router::new().route(
        "/pay",
        post(async move |headers: HeaderMap| {
            runs.run();
            format!("secret of {}", headers["x-caller"].to_str().unwrap())
        }),
    )
}

fn of_tenant(tenant: &str, caller: &str) -> Request<Body> {
    let mut request = pay_as(caller, "k", "x");
    request.headers_mut().insert("x-tenant", tenant.parse().unwrap());
    request
}

#[tokio::test]
async fn callers_never_share_responses() {
    let fixture = Fixture::new(3);
    let client = serve(app(&fixture.runs).route_layer(layer(&fixture.at_blue))).await;
    for replayed in [None, Some("true")] {
        for caller in ["alice", "bob"] {
            let answer = client.send(pay_as(caller, "k", "x")).await;
            assert_eq!(answer.body, format!("secret of {caller}"));
            assert_eq!(answer.header("idempotency-replayed"), replayed);
        }
    }
    assert_eq!(fixture.runs.count(), 2);
}

#[tokio::test]
async fn scope_none_shares_keys() {
    let fixture = Fixture::new(3);
    let once = OnceLayer::idempotency(fixture.at_blue.clone(), "pay").scope(Scope::none());
    let client = serve(app(&fixture.runs).route_layer(once)).await;
    for caller in ["alice", "bob"] {
        assert_eq!(client.send(pay_as(caller, "k", "x")).await.body, "secret of alice");
    }
}

#[tokio::test]
async fn unknown_caller_is_always_refused() {
    let fixture = Fixture::new(3);
    let once = layer(&fixture.at_blue).missing(Missing::Run);
    let client = serve(app(&fixture.runs).route_layer(once)).await;
    let mut nobody = pay("k", "x");
    nobody.headers_mut().remove("x-caller");
    client.send(nobody).await.assert_bad_key();
    // What should tell is not there at all: the service is put together wrongly.
    let principal = key::extension(|(): &()| "alice");
    let once = OnceLayer::idempotency(fixture.at_blue.clone(), "pay").scope(principal);
    let client = serve(app(&fixture.runs).route_layer(once)).await;
    client.send(pay("k", "x")).await.assert_bad_settings();
    assert_eq!(fixture.runs.count(), 0);
}

/// A set of names has no order, so a tenant and a user with swapped names would share keys.
#[tokio::test]
async fn set_scope_is_refused() {
    let fixture = Fixture::new(3);
    let tenant_and_user = |request: &Request<_>| {
        let header = |name: &str| request.headers()[name].to_str().unwrap().to_owned();
        [header("x-tenant"), header("x-caller")]
    };
    let once = OnceLayer::idempotency(fixture.at_blue.clone(), "pay").scope(tenant_and_user);
    let client = serve(app(&fixture.runs).route_layer(once)).await;
    let mut without_key = of_tenant("acme", "bob");
    without_key.headers_mut().remove("idempotency-key");
    for request in [of_tenant("acme", "bob"), of_tenant("bob", "acme"), without_key] {
        client.send(request).await.assert_bad_settings();
    }
    assert_eq!(fixture.runs.count(), 0);
    let joined = key::joined((key::header("x-tenant"), key::header("x-caller")));
    let once = OnceLayer::idempotency(fixture.at_blue.clone(), "pay").scope(joined);
    let client = serve(app(&fixture.runs).route_layer(once)).await;
    for replayed in [None, Some("true")] {
        for (tenant, user) in [("acme", "bob"), ("bob", "acme"), ("bob", "bob")] {
            let answer = client.send(of_tenant(tenant, user)).await;
            assert_eq!(answer.body, format!("secret of {user}"));
            assert_eq!(answer.header("idempotency-replayed"), replayed);
        }
    }
    assert_eq!(fixture.runs.count(), 3);
}

#[tokio::test]
async fn callers_who_need_no_keys_pass() {
    let fixture = Fixture::new(3);
    let caller = |request: &Request<_>| {
        Some(request.headers()["x-caller"].to_str().unwrap().to_owned()).filter(|it| it != "root")
    };
    let once = OnceLayer::idempotency(fixture.at_blue.clone(), "pay").scope(caller);
    let client = serve(app(&fixture.runs).route_layer(once)).await;
    for _ in 0..2 {
        let answer = client.send(pay_as("root", "k", "x")).await;
        assert_eq!(answer.header("idempotency-replayed"), None);
    }
    assert_eq!(fixture.runs.count(), 2);
}

#[tokio::test]
async fn long_names_are_valid() {
    let fixture = Fixture::new(3);
    let client = serve(app(&fixture.runs).route_layer(layer(&fixture.at_blue))).await;
    let (caller, key) = ("c".repeat(512), "k".repeat(255));
    for replayed in [None, Some("true")] {
        let answer = client.send(pay_as(&caller, &key, "x")).await;
        assert_eq!((answer.code(), answer.header("idempotency-replayed")), (200, replayed));
    }
    let other = client.send(pay_as(&caller, &key[1..], "x")).await;
    assert_eq!((other.code(), other.header("idempotency-replayed")), (200, None));
}
