//! Handlers inside several layers: each layer's lock by its name.

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::Request,
    routing::post,
};
use http::StatusCode;
use tower::ServiceExt;
use tower_redlock::{
    LockContext, LockContexts, OnceLayer, Redlock, RedlockLayer,
    key::{self, Header, Key, PathSegment},
    layer::http::RedlockHttp,
    once::http::Scope,
};

fn account(redlock: &Redlock) -> RedlockLayer<Key<PathSegment>, RedlockHttp> {
    RedlockLayer::new(redlock.clone(), key::path_segment(1)).named("account").http()
}

fn payments(redlock: &Redlock) -> OnceLayer<Key<Header>> {
    OnceLayer::new(redlock.clone(), "payments", key::header("payment-id"))
}

fn request() -> Request {
    let post = Request::post("/accounts/7").header("payment-id", "p1");
    post.header("idempotency-key", "k").body(Body::from(r#"{"id":"p2"}"#)).unwrap()
}

fn names<'a>(contexts: impl IntoIterator<Item = &'a LockContext>) -> Vec<String> {
    contexts.into_iter().map(|context| context.resource().to_string()).collect()
}

/// The locks that a handler inside these layers finds: all locks in order, then the lock of the
/// innermost layer, by its extractor and in the extensions.
async fn found(add: impl FnOnce(Router) -> Router) -> Vec<String> {
    async fn handle(locks: LockContexts, innermost: LockContext, request: Request) -> String {
        let mut found = names(locks.iter());
        for (layer, context) in
            [("account", "7"), ("payments", "once:layer:payments:p1"), ("all", "everything")]
        {
            let by_name = locks.get(layer).map(|context| context.resource().to_string());
            assert_eq!(by_name.is_some(), locks.on(context).is_some(), "{locks:?}");
            assert!(by_name.is_none_or(|name| name == context), "{locks:?}");
        }
        assert!(locks.get("another").is_none() && locks.on("another").is_none());
        locks.iter().for_each(|context| context.ensure_valid().expect("held"));
        let tokens = locks.iter().map(LockContext::fencing_token).collect::<Vec<_>>();
        assert!(tokens.iter().enumerate().all(|(at, token)| !tokens[..at].contains(token)));
        found.extend(names([&innermost, request.extensions().get().expect("a context")]));
        found.join("\n")
    }
    let app = add(Router::new().route("/accounts/{id}", post(handle)));
    let response = app.oneshot(request()).await.unwrap();
    let status = response.status();
    let text = to_bytes(response.into_body(), 10_000).await.unwrap();
    let text = String::from_utf8(text.into()).unwrap();
    assert_eq!(status, StatusCode::OK, "{text}");
    text.lines().map(str::to_owned).collect()
}

const ACCOUNT: &str = "7";
const PAYMENT: &str = "once:layer:payments:p1";

#[tokio::test]
async fn a_lock_inside_of_once() {
    let redlock = Redlock::embedded();
    let found = found(|app| app.layer(account(&redlock)).layer(payments(&redlock).http())).await;
    assert_eq!(found, [PAYMENT, ACCOUNT, ACCOUNT, ACCOUNT]);
}

#[tokio::test]
async fn once_inside_of_a_lock() {
    let redlock = Redlock::embedded();
    let found = found(|app| app.layer(payments(&redlock).http()).layer(account(&redlock))).await;
    assert_eq!(found, [ACCOUNT, PAYMENT, PAYMENT, PAYMENT]);
}

#[tokio::test]
async fn locks_inside_of_each_other() {
    let redlock = Redlock::embedded();
    // The layer has a name, and another mode.
    let all = RedlockLayer::new(redlock.clone(), |_: &Request| "everything").http();
    let all = all.named("all").read_body_first(1 << 10);
    let found = found(|app| app.layer(account(&redlock)).layer(all)).await;
    assert_eq!(found, ["everything", ACCOUNT, ACCOUNT, ACCOUNT]);
}

#[tokio::test]
async fn nested_once_layers_of_every_kind() {
    let redlock = Redlock::embedded();
    let unnamed = RedlockLayer::new(redlock.clone(), |_: &Request| "unnamed").http();
    let by_body = OnceLayer::by_body(redlock.clone(), "events", key::json_pointer("/id"));
    let idempotent = OnceLayer::idempotency(redlock.clone(), "charges").scope(Scope::none());
    let found =
        found(|app| app.layer(unnamed).layer(by_body).layer(account(&redlock)).layer(idempotent));

    let found = found.await;

    assert!(found[0].starts_with("once:idempotency:"), "{found:?}");
    assert_eq!(found[1..], [ACCOUNT, "once:layer:events:p2", "unnamed", "unnamed", "unnamed"]);
}

#[tokio::test]
async fn innermost_layer_wins_a_shared_name() {
    async fn handle(locks: LockContexts) -> String {
        locks.get("account").unwrap().resource().to_string()
    }
    let redlock = Redlock::embedded();
    let outer = RedlockLayer::new(redlock.clone(), |_: &Request| "outer").named("account").http();
    let app = Router::new().route("/accounts/{id}", post(handle));
    let app = app.layer(account(&redlock)).layer(outer);

    let response = app.oneshot(request()).await.unwrap();

    assert_eq!(to_bytes(response.into_body(), 10).await.unwrap(), ACCOUNT);
}

#[tokio::test]
async fn unguarded_request_has_no_contexts() {
    async fn perhaps(locks: Option<LockContexts>) -> String {
        locks.is_some().to_string()
    }
    async fn surely(_: LockContexts) {}
    let unguarded = RedlockLayer::new(Redlock::embedded(), |_: &Request| None::<String>).http();
    let app = Router::new().route("/perhaps", post(perhaps)).route("/surely", post(surely));
    let app = app.layer(unguarded);
    let send = async |path: &str| {
        app.clone().oneshot(Request::post(path).body(Body::empty()).unwrap()).await.unwrap()
    };

    let perhaps = send("/perhaps").await;

    assert_eq!(to_bytes(perhaps.into_body(), 10).await.unwrap(), "false");
    assert_eq!(send("/surely").await.status(), StatusCode::INTERNAL_SERVER_ERROR);
}
