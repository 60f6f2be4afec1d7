//! The receiver: checks who sent an event, then has it handled once.

use std::{sync::Arc, time::Duration};

use axum::{
    Json, Router,
    body::{Body, to_bytes},
    extract::{Request, State},
    http::{HeaderMap, StatusCode},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::post,
};
use serde_json::Value;
use tower::ServiceBuilder;
use tower_redlock::{LockContext, OnceLayer, Redlock, key};

use crate::{
    effects::Effect,
    shop::{Shop, Unavailable},
    signature::{ID, Key, Refused},
};

/// How long the events of a crashed receiver are blocked. The default, 10 s, suits longer work.
pub(crate) const TTL: Duration = Duration::from_secs(2);
/// Longer than senders go on sending: the default, 96 hours, is for real ones. Those of this
/// example come to their end within a minute, and leave nothing on your servers for longer.
const RETAIN: Duration = Duration::from_secs(600);
const MAX_BODY: usize = 64 * 1024;

pub(crate) fn router(redlock: Redlock, key: Key, shop: Shop) -> Router {
    let once = OnceLayer::new(redlock, "shop", key::header(ID)).ttl(TTL).retain(RETAIN).http();
    // A request meets the upper layer first. The other way round, a stranger would be told which
    // events are done, and could block one that is not by sending its id, and a body that does not
    // end.
    let layers = ServiceBuilder::new()
        .layer(middleware::from_fn_with_state(Arc::new(key), verify))
        .layer(once);
    Router::new().route("/webhooks", post(handle)).route_layer(layers).with_state(shop)
}

/// What was signed is the body as it came: it is read before anybody parses it.
async fn verify(
    State(key): State<Arc<Key>>,
    request: Request,
    next: Next,
) -> Result<Response, StatusCode> {
    let (head, body) = request.into_parts();
    let body = to_bytes(body, MAX_BODY).await.map_err(|_| StatusCode::PAYLOAD_TOO_LARGE)?;
    key.verify(&head.headers, &body).map_err(|refused| match refused {
        Refused::Malformed => StatusCode::BAD_REQUEST,
        Refused::Stale | Refused::WrongSignature => StatusCode::UNAUTHORIZED,
    })?;
    Ok(next.run(Request::from_parts(head, Body::from(body))).await)
}

/// Runs while no other receiver handles the event, and never again once it was a success. After
/// any other status the key is free, for the sender's next try.
async fn handle(
    State(shop): State<Shop>,
    lock: LockContext,
    headers: HeaderMap,
    Json(payment): Json<Value>,
) -> Result<(), Unavailable> {
    let event = headers.get(ID).and_then(|id| id.to_str().ok()).unwrap_or_default().to_owned();
    let amount = payment["amount"].as_u64().unwrap_or_default();
    // A store that checks tokens would turn away a receiver that was overtaken.
    let token = lock.fencing_token().get();
    shop.book(Effect { event, receiver: shop.receiver.clone(), token, amount }).await
}

impl IntoResponse for Unavailable {
    fn into_response(self) -> Response {
        StatusCode::SERVICE_UNAVAILABLE.into_response()
    }
}
