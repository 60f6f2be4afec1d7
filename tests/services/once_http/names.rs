//! The names of keys: a client that chooses the key of its request reaches no name of the application.

use std::convert::Infallible;

use axum::{Router, routing::post};
use futures_util::TryStreamExt;
use tower_redlock::{
    OnceLayer, key,
    once::{Once, OnceState},
};

use crate::once_http::fixture::{Fixture, hook, serve};
use crate::once_http::idempotency::requests::{layer, pay};

/// A layer for webhooks with the name `order`.
fn orders(fixture: &Fixture) -> Router {
    let once = OnceLayer::new(fixture.at_blue.clone(), "order", key::header("webhook-id")).http();
    Router::new().route("/hook", post(async || "handled").route_layer(once))
}

fn payments(fixture: &Fixture) -> Router {
    Router::new().route("/pay", post(async || "paid").route_layer(layer(&fixture.at_blue)))
}

#[tokio::test]
async fn request_leaves_work_of_the_application_undone() {
    let fixture = Fixture::new(3);
    let client = serve(orders(&fixture)).await;
    assert_eq!(client.send(hook("7")).await.body, "handled");

    let shipped =
        fixture.at_green.once("order:7").run(async |_| Ok::<_, Infallible>("shipped")).await;

    assert_eq!(shipped.unwrap(), Once::Ran("shipped"));
    client.send(hook("7")).await.assert_duplicate();
}

#[tokio::test]
async fn keys_of_layers_are_no_names_of_the_application() {
    let fixture = Fixture::new(3);

    for key in ["layer:order:7", "layer:", "idempotency:pay:5:alice:k"] {
        let refused = fixture.at_green.once(key).status().await;
        let prefix = &key[..=key.find(':').expect("a colon")];
        assert!(refused.unwrap_err().to_string().contains(prefix), "{key}");
    }

    assert!(fixture.at_green.once("layers:order:7").status().await.unwrap().is_none());
}

#[tokio::test]
async fn listed_keys_reach_every_record() {
    let fixture = Fixture::new(3);
    let client = serve(orders(&fixture).merge(payments(&fixture))).await;
    client.send(hook("7")).await;
    client.send(pay("k", "")).await;
    let shipped = fixture.at_blue.once("order:7").run(async |_| Ok::<_, Infallible>(())).await;
    assert_eq!(shipped.unwrap(), Once::Ran(()));

    let mut keys: Vec<_> = fixture.at_green.once_keys().try_collect().await.unwrap();

    keys.sort_unstable();
    let paid = "idempotency:pay://pay.example/5:alice:k";
    assert_eq!(
        keys.iter().map(|key| &**key).collect::<Vec<_>>(),
        [paid, "layer:order:7", "order:7"]
    );
    for key in keys {
        let status = fixture.at_green.once_key(&*key).status().await.unwrap();
        assert_eq!(status.map(|status| status.state), Some(OnceState::Done), "{key}");
        assert!(fixture.at_green.once_key(&*key).forget().await.unwrap(), "{key}");
    }
}
