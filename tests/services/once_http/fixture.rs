//! Servers of two replicas over nodes of one process, handlers that count their runs, and requests.

use std::time::Duration;

use axum::{Router, body::Body, response::IntoResponse, routing::any};
use http::Request;
use tower_redlock::{
    OnceLayer, Redlock,
    key::{self, Header, JsonPointer, Key},
    once::{
        Always,
        http::{ByBody, OnceHttp},
    },
    reject::DefaultResponse,
};

use crate::support::eventually_async;

pub(crate) use crate::client::serve;
pub(crate) use crate::handlers::soon;
pub(crate) use crate::pair::{Pair as Fixture, Runs};

pub(crate) const TTL: Duration = Duration::from_secs(10);
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

impl Fixture {
    /// A service at `/hook` and `/pay` whose response depends on the number of the run.
    pub(crate) fn app<A: IntoResponse>(
        &self,
        answer: impl Fn(usize) -> A + Clone + Send + Sync + 'static,
    ) -> Router {
        let runs = self.runs.clone();
        let handler = any(async move || answer(runs.run()));
        Router::new().route("/hook", handler.clone()).route("/pay", handler)
    }

    /// Waits for this number of runs.
    pub(crate) async fn runs(&self, count: usize) {
        eventually_async("the handler runs", async || self.runs.count() == count).await;
    }

    /// Waits until no node keeps a lock or a record.
    pub(crate) async fn is_free(&self) {
        eventually_async("all is free", async || self.nodes.key_counts() == [0; 3]).await;
    }
}

/// A layer for events with their id in a header.
pub(crate) fn webhooks(redlock: &Redlock) -> OnceLayer<Key<Header>> {
    OnceLayer::new(redlock.clone(), "hook", key::header("webhook-id"))
}

/// A layer for events with their id in the body.
pub(crate) fn events(
    redlock: &Redlock,
) -> OnceLayer<Key<JsonPointer>, Always, OnceHttp<DefaultResponse, ByBody>> {
    OnceLayer::by_body(redlock.clone(), "hook", key::json_pointer("/id"))
}

/// An event with this id in a header.
pub(crate) fn hook(id: &str) -> Request<Body> {
    Request::post("/hook").header("webhook-id", id).body(Body::empty()).expect("a request")
}

/// An event with an id in its body.
pub(crate) fn event() -> Request<Body> {
    Request::post("/hook").body(r#"{"id":"evt_1"}"#.into()).expect("a request")
}

pub(crate) type NewRequest = fn() -> Request<Body>;

/// Serves `app` inside a layer of each kind, and returns the clients, each with its request. The
/// layer for payments frees the key of a request whose outcome is unknown, as those for events do.
macro_rules! each_kind {
    ($fixture:expr, $app:expr, |$layer:ident| $adjusted:expr) => {{
        use $crate::once_http::{fixture, idempotency::requests};
        let redlock = &$fixture.at_blue;
        let $layer = fixture::webhooks(redlock).http();
        let webhooks = fixture::serve($app.clone().route_layer($adjusted)).await;
        let $layer = fixture::events(redlock);
        let events = fixture::serve($app.clone().route_layer($adjusted)).await;
        let $layer = requests::freeing(redlock);
        let payments = fixture::serve($app.clone().route_layer($adjusted)).await;
        let requests: [fixture::NewRequest; 3] =
            [|| fixture::hook("evt_1"), fixture::event, || requests::pay("k", "")];
        let [hook, event, payment] = requests;
        [(webhooks, hook), (events, event), (payments, payment)]
    }};
}
pub(crate) use each_kind;
