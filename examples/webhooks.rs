//! A webhook is handled once, however often its sender delivers it.
//!
//! ```text
//! cargo run --example webhooks --features axum,once
//! ```
//!
//! It prints a signed `curl` command; run that twice. `WEBHOOK_SECRET` is the sender's secret.
//!
//! `REDLOCK_NODES=redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3` names the servers; without it,
//! the nodes are inside the process. `LISTEN` is the address to listen on. Ctrl-C stops it.

use std::{
    env,
    error::Error,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
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
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use tokio::{net::TcpListener, signal};
use tower_redlock::{LockContext, OnceLayer, Redlock, key};

/// Maximum size of a body that is read to check its signature, in bytes.
const MAX_BODY: usize = 64 * 1024;
/// Maximum difference of a timestamp from the current time, in seconds.
const TOLERANCE: u64 = 300;

fn app(redlock: Redlock, secret: Secret) -> Router {
    // After a 2xx the event is done, and a repeat is answered with an empty 200. After any other
    // status the sender may retry.
    let once = OnceLayer::new(redlock, "payments", key::header("webhook-id")).http();
    Router::new()
        .route("/webhooks", post(handle).route_layer(once))
        // The layer that is added last is the outermost. A stranger must neither learn which events
        // are done nor block one by sending its id.
        .route_layer(middleware::from_fn_with_state(Arc::new(secret), verify))
}

async fn handle(lock: LockContext, Json(event): Json<serde_json::Value>) -> StatusCode {
    println!("{event} under token {}", lock.fencing_token());
    StatusCode::NO_CONTENT
}

/// Passes on requests that are signed according to the Standard Webhooks specification. The
/// signature covers the bytes of the body.
async fn verify(
    State(secret): State<Arc<Secret>>,
    request: Request,
    next: Next,
) -> Result<Response, StatusCode> {
    let (head, body) = request.into_parts();
    let body = to_bytes(body, MAX_BODY).await.map_err(|_| StatusCode::PAYLOAD_TOO_LARGE)?;
    secret.verify(&head.headers, &body)?;
    Ok(next.run(Request::from_parts(head, Body::from(body))).await)
}

struct Secret(Hmac<Sha256>);

impl Secret {
    /// Parses a secret as senders show it: `whsec_` and base64.
    fn new(secret: &str) -> Result<Self, Box<dyn Error>> {
        let key = BASE64.decode(secret.strip_prefix("whsec_").ok_or("no whsec_ secret")?)?;
        Ok(Self(Hmac::new_from_slice(&key)?))
    }

    fn verify(&self, headers: &HeaderMap, body: &[u8]) -> Result<(), StatusCode> {
        let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let header = |name| header(name).ok_or(StatusCode::BAD_REQUEST);
        let (id, timestamp) = (header("webhook-id")?, header("webhook-timestamp")?);
        let signatures = header("webhook-signature")?;
        let sent: u64 = timestamp.parse().map_err(|_| StatusCode::BAD_REQUEST)?;
        if unix_time().abs_diff(sent) > TOLERANCE {
            return Err(StatusCode::UNAUTHORIZED);
        }
        // There are several while the sender replaces its secret. The comparison takes constant time.
        let is_valid = |signature: &str| {
            let given = signature.strip_prefix("v1,").and_then(|text| BASE64.decode(text).ok());
            given.is_some_and(|given| self.mac(id, sent, body).verify_slice(&given).is_ok())
        };
        signatures.split(' ').any(is_valid).then_some(()).ok_or(StatusCode::UNAUTHORIZED)
    }

    fn sign(&self, id: &str, timestamp: u64, body: &[u8]) -> String {
        format!("v1,{}", BASE64.encode(self.mac(id, timestamp, body).finalize().into_bytes()))
    }

    fn mac(&self, id: &str, timestamp: u64, body: &[u8]) -> Hmac<Sha256> {
        self.0.clone().chain_update(format!("{id}.{timestamp}.")).chain_update(body)
    }
}

/// Returns the time in seconds since 1970.
fn unix_time() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let redlock = match env::var("REDLOCK_NODES") {
        Ok(urls) => Redlock::builder().nodes(urls.split(',')).build()?,
        Err(_) => Redlock::embedded(),
    };
    // A new or restarted server votes after `max_ttl` (10 s): it may have forgotten locks.
    redlock.ready_within(Duration::from_secs(60)).await?;
    let secret = env::var("WEBHOOK_SECRET");
    let secret = Secret::new(secret.as_deref().unwrap_or("whsec_bm90IGEgc2VjcmV0IGF0IGFsbA=="))?;

    let listen = env::var("LISTEN").unwrap_or_else(|_| "127.0.0.1:8080".into());
    let listener = TcpListener::bind(listen).await?;
    let (url, now) = (format!("http://{}/webhooks", listener.local_addr()?), unix_time());
    let (id, body) = (format!("evt_{now}"), r#"{"amount":7}"#);
    println!("listening on {url}; try this twice:");
    println!("curl -i {url} -H 'content-type: application/json' -d '{body}' \\");
    println!("  -H 'webhook-id: {id}' -H 'webhook-timestamp: {now}' \\");
    println!("  -H 'webhook-signature: {}'", secret.sign(&id, now, body.as_bytes()));

    axum::serve(listener, app(redlock.clone(), secret))
        .with_graceful_shutdown(async { signal::ctrl_c().await.unwrap_or_default() })
        .await?;
    // Waits until the nodes have acknowledged every release.
    redlock.shutdown().await;
    Ok(())
}
