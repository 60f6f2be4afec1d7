//! A receiver: checks the signature of an event, then has it handled once.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    Json, Router,
    body::{Body, to_bytes},
    extract::{Request, State},
    http::{HeaderMap, StatusCode},
    middleware::{self, Next},
    response::Response,
    routing::post,
};
use serde_json::Value;
use tokio::net::TcpListener;
use tower::ServiceBuilder;
use tower_redlock::{LockContext, OnceLayer, Redlock, RedlockBuilder, key};

use super::{
    SECRET,
    effects::{Effect, Effects},
    signature::{ID, Key, Refused},
};
use crate::stories::{
    Failure,
    member::{Input, Part, print},
};

/// Time for which the events of a crashed receiver are blocked.
pub(crate) const TTL: Duration = Duration::from_secs(2);
/// Longer than the sender repeats an event.
const RETAIN: Duration = Duration::from_secs(600);
const MAX_BODY: usize = 64 * 1024;
/// Time that the shop works before its effect, and after it.
const WORK: Duration = Duration::from_millis(10);
/// One call of this number finds the shop unavailable.
const FAILS_EVERY: usize = 20;

/// Receives until the end of the input. The part's argument is the file of effects; says where it
/// listens.
pub(crate) async fn receive(
    builder: RedlockBuilder,
    part: Part,
    input: Input,
) -> Result<(), Failure> {
    let redlock = builder.build()?;
    let effects = Effects::open(part.arg.as_ref())?;
    let shop = Shop { receiver: part.name.into(), effects, calls: Arc::default() };
    // Before that, every request would be answered with 503.
    redlock.ready().await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    print(&listener.local_addr()?);
    axum::serve(listener, router(redlock.clone(), Key::new(SECRET)?, shop))
        .with_graceful_shutdown(async move { input.stopped().await })
        .await?;
    redlock.shutdown().await;
    Ok(())
}

fn router(redlock: Redlock, key: Key, shop: Shop) -> Router {
    let once = OnceLayer::new(redlock, "shop", key::header(ID)).ttl(TTL).retain(RETAIN).http();
    // The first layer is the outermost.
    let layers = ServiceBuilder::new()
        .layer(middleware::from_fn_with_state(Arc::new(key), verify))
        .layer(once);
    Router::new().route("/webhooks", post(handle)).route_layer(layers).with_state(shop)
}

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

async fn handle(
    State(shop): State<Shop>,
    lock: LockContext,
    headers: HeaderMap,
    Json(payment): Json<Value>,
) -> Result<(), StatusCode> {
    let event = headers.get(ID).and_then(|id| id.to_str().ok()).unwrap_or_default().to_owned();
    let amount = payment["amount"].as_u64().unwrap_or_default();
    let token = lock.fencing_token().get();
    let effect = Effect { event, receiver: Arc::clone(&shop.receiver), token, amount };
    shop.book(&effect).await
}

/// The application that handles the events: it books payments, and is sometimes unavailable.
#[derive(Clone)]
struct Shop {
    receiver: Arc<str>,
    effects: Effects,
    calls: Arc<AtomicUsize>,
}

impl Shop {
    async fn book(&self, effect: &Effect) -> Result<(), StatusCode> {
        tokio::time::sleep(WORK).await;
        if self.calls.fetch_add(1, Ordering::Relaxed) % FAILS_EVERY == FAILS_EVERY - 1 {
            return Err(StatusCode::SERVICE_UNAVAILABLE);
        }
        self.effects.append(effect).map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
        // After a crash between here and the record that the event is done, it is handled again.
        tokio::time::sleep(WORK).await;
        Ok(())
    }
}
