//! Connections that the handler must not get: they are closed, and no session begins.

use std::time::Duration;

use axum::{
    Router,
    extract::{Request, ws::WebSocketUpgrade},
    middleware::map_response,
    response::{IntoResponse, Response},
    routing::any,
};
use http::StatusCode;
use http_body_util::BodyExt;
use tokio::{io::AsyncReadExt, net::TcpStream};
use tower_redlock::{LockError, Redlock, RedlockLayer, layer::http::HeldUpgrade};

use super::{
    site::soon,
    upgrades::{Ends, Layer, SHORT, Scene, echo},
};
use crate::handlers::{self, Session, Sessions};

/// A handler that upgrades connections without the handle.
async fn unguarded(set: impl FnOnce(Layer) -> Layer) -> (Scene, Sessions) {
    let (handler, sessions) = handlers::unguarded();
    let app = move |_: &Ends| Router::new().route("/ws/{key}", handler);
    (Scene::with(app, set).await, sessions)
}

async fn ask(scene: &Scene, connection: &str) -> TcpStream {
    handlers::ask(scene.addr, "/ws/a", connection, "", "").await
}

async fn is_closed_after(code: &str, stream: TcpStream) {
    handlers::is_closed_after(500, code, stream).await;
}

#[tokio::test]
async fn refused_session_never_begins() {
    // A client that keeps the connection, and one that does not.
    for connection in ["Upgrade", "Upgrade, close"] {
        for hold_upgrade in [true, false] {
            let (scene, mut sessions) = unguarded(|layer| layer.hold_upgrade(hold_upgrade)).await;
            is_closed_after("upgrade-unguarded", ask(&scene, connection).await).await;
            assert_eq!(sessions.recv().await, Some(Session::Dropped), "{connection}");
            scene.site.all_keys_gone().await;
        }
    }
}

#[tokio::test]
async fn session_of_lost_lock_never_begins() {
    let (handler, mut sessions) = handlers::stuck();
    let app = move |_: &Ends| Router::new().route("/ws/{key}", handler);
    let scene = Scene::with(app, |layer| layer.max_hold(SHORT)).await;

    is_closed_after("lost", ask(&scene, "Upgrade, close").await).await;

    assert_eq!(sessions.recv().await, Some(Session::Taken));
    assert_eq!(sessions.recv().await, Some(Session::Dropped));

    scene.site.all_keys_gone().await;
}

#[tokio::test]
async fn refused_http2_session_never_begins() {
    let (scene, mut sessions) = unguarded(|layer| layer).await;
    let (connection, answer) = scene.connect_http2().await;

    assert_eq!(answer.status(), 500);

    // The stream ends; the connection stays open.
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    assert!(serde_json::from_slice::<serde_json::Value>(&body).is_ok());
    assert_eq!(sessions.recv().await, Some(Session::Dropped));

    scene.site.all_keys_gone().await;
    assert!(connection.is_ready());
}

async fn status(stream: &mut TcpStream) -> String {
    let mut status = [0; 12];
    soon("an answer", stream.read_exact(&mut status)).await.unwrap();
    String::from_utf8_lossy(&status).into_owned()
}

/// The outer layer passes on the refusal, and the end of the connection.
#[tokio::test]
async fn inner_refusal_closes_the_connection() {
    let (handler, mut sessions) = handlers::unguarded();
    let app = move |_: &Ends| {
        let inner = RedlockLayer::new(Redlock::embedded(), |_: &Request| "inner").http();
        Router::new().route("/ws/{key}", handler).route_layer(inner)
    };
    let scene = Scene::open(app).await;

    is_closed_after("upgrade-unguarded", ask(&scene, "Upgrade, close").await).await;

    assert_eq!(sessions.recv().await, Some(Session::Dropped));

    scene.site.all_keys_gone().await;
}

/// A handler that takes the handle of the inner layer, whose key is `inner`, and no other.
async fn inner_only(outside: fn(Router) -> Router) -> (Scene, Redlock) {
    let redlock = Redlock::embedded();
    let of_inner = redlock.clone();
    let app = move |_: &Ends| {
        let handler = async move |inner: HeldUpgrade, upgrade: WebSocketUpgrade| {
            assert_eq!(inner.context().resource().to_string(), "inner");
            let session = async |socket| {
                let _ = inner.run(|_| echo(socket)).await;
            };
            upgrade.on_upgrade(session).into_response()
        };
        let inner = RedlockLayer::new(of_inner, |_: &Request| "inner").http().hold_upgrade(true);
        outside(Router::new().route("/ws/{key}", any(handler)).route_layer(inner))
    };
    (Scene::open(app).await, redlock)
}

#[tokio::test]
async fn outer_refusal_frees_the_inner_key() {
    let (scene, redlock) = inner_only(|app| app).await;
    let mut stream = ask(&scene, "Upgrade").await;
    assert_eq!(status(&mut stream).await, "HTTP/1.1 500");
    // The client keeps its end open.
    let freed = async { redlock.lock("inner").wait(Duration::MAX).await };
    let _lock = soon("the inner key", freed).await.unwrap();
    drop(stream);
}

#[tokio::test]
async fn http2_outer_refusal_frees_inner_key() {
    let (scene, redlock) = inner_only(|app| app).await;
    let (_connection, answer) = scene.connect_http2().await;
    assert_eq!(answer.status(), 500);
    let freed = async { redlock.lock("inner").wait(Duration::MAX).await };
    let _lock = soon("the inner key", freed).await.unwrap();
}

/// The inner layer does not detect that its response was replaced: a session that still begins has
/// the lock.
#[tokio::test]
async fn replaced_upgrade_frees_key_with_connection() {
    let forbidden =
        |app: Router| app.layer(map_response(async |_: Response| StatusCode::FORBIDDEN));
    let (scene, redlock) = inner_only(forbidden).await;

    let mut stream = ask(&scene, "Upgrade").await;

    assert_eq!(status(&mut stream).await, "HTTP/1.1 403");

    let held = redlock.lock("inner").wait(Duration::ZERO).await;
    assert!(matches!(held, Err(LockError::Held { .. })), "{held:?}");

    drop(stream);
    let freed = async { redlock.lock("inner").wait(Duration::MAX).await };
    let _lock = soon("the inner key", freed).await.unwrap();
}
