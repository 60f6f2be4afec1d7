//! The contract of a tower service, with a strict service: it panics if it is called without having
//! been ready, and its clones are not ready.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use tower_redlock::{LockError, Redlock, RedlockLayer, layer, node::EmbeddedNodes};
use tower_test::mock;

use crate::support::{HANG_GUARD, eventually_async};

type Call = Request<()>;
type Reply = Response<Full<Bytes>>;

fn request(path: &str) -> Call {
    Request::post(path).body(()).unwrap()
}

fn reply(text: &'static str) -> Reply {
    Response::new(Full::from(text))
}

/// The key is the path; `/` needs no lock.
fn key(request: &Call) -> Option<String> {
    let path = request.uri().path();
    (path != "/").then(|| path.to_owned())
}

/// Returns the next request, and the handle to respond to it.
async fn arrives<Q, A>(handle: &mut mock::Handle<Q, A>) -> (Q, mock::SendResponse<A>) {
    let arrived = tokio::time::timeout(HANG_GUARD, handle.next_request()).await;
    arrived.expect("the request reaches the service").expect("the service is there")
}

fn nodes() -> (EmbeddedNodes, Redlock) {
    let nodes = EmbeddedNodes::new(3);
    let redlock = Redlock::builder().nodes_from(&nodes).wait(HANG_GUARD).build().unwrap();
    (nodes, redlock)
}

#[tokio::test]
async fn broken_service_fails_its_requests() {
    let (nodes, redlock) = nodes();
    let (mut service, mut handle) =
        mock::spawn_layer::<Call, Reply, _>(RedlockLayer::new(redlock, key).http());

    for path in ["/", "/a"] {
        handle.send_error("broken");
        assert!(service.poll_ready().is_ready(), "always");
        let error = service.call(request(path)).await.unwrap_err();
        assert_eq!(error.to_string(), "broken");
    }

    assert_eq!(nodes.key_counts(), [0; 3], "the lock is released");
}

#[tokio::test]
async fn service_is_readied_under_lock() {
    let (nodes, redlock) = nodes();
    let layer = RedlockLayer::new(redlock, key).http();
    let (mut service, mut handle) = mock::spawn_layer::<Call, Reply, _>(layer);

    handle.allow(0);

    assert!(service.poll_ready().is_ready(), "always");

    let answer = tokio::spawn(service.call(request("/a")));
    eventually_async("it is locked", async || nodes.key_counts() == [1; 3]).await;
    assert!(handle.poll_request().is_pending(), "the service is not ready");

    handle.allow(1);
    let (seen, send) = arrives(&mut handle).await;
    assert_eq!(seen.uri(), "/a");
    assert_eq!(nodes.key_counts(), [1; 3], "it runs under its lock");

    send.send_response(reply("done"));
    let body = answer.await.unwrap().unwrap().into_body();
    assert_eq!(nodes.key_counts(), [1; 3], "held until the body has ended");
    assert_eq!(body.collect().await.unwrap().to_bytes(), "done");
    assert_eq!(nodes.key_counts(), [0; 3]);
}

#[tokio::test]
async fn unguarded_request_needs_no_lock() {
    let (nodes, redlock) = nodes();
    let layer = RedlockLayer::new(redlock, key).http();

    let (mut service, mut handle) = mock::spawn_layer::<Call, Reply, _>(layer);

    assert!(service.poll_ready().is_ready());

    let answer = tokio::spawn(service.call(request("/")));
    let (_, send) = arrives(&mut handle).await;
    assert_eq!(nodes.key_counts(), [0; 3]);

    send.send_response(reply("done"));
    assert_eq!(answer.await.unwrap().unwrap().status(), 200);
}

#[tokio::test]
async fn requests_for_one_key_are_sequential() {
    let (_, redlock) = nodes();
    let layer = RedlockLayer::new(redlock, key).http();
    let (mut service, mut handle) = mock::spawn_layer::<Call, Reply, _>(layer);
    let mut answers = Vec::new();
    for _ in 0..3 {
        assert!(service.poll_ready().is_ready());
        answers.push(tokio::spawn(service.call(request("/a"))));
    }

    for answer in answers {
        let (_, send) = arrives(&mut handle).await;
        tokio::task::yield_now().await;
        assert!(handle.poll_request().is_pending(), "nobody else is let in");
        send.send_response(reply("done"));
        let body = answer.await.unwrap().unwrap().into_body();
        tokio::task::yield_now().await;
        assert!(handle.poll_request().is_pending(), "until the body has ended");
        drop(body);
    }
}

#[tokio::test]
async fn service_error_passes_and_frees_key() {
    let (nodes, redlock) = nodes();
    let layer = RedlockLayer::new(redlock, key).http();

    let (mut service, mut handle) = mock::spawn_layer::<Call, Reply, _>(layer);

    assert!(service.poll_ready().is_ready());

    let answer = tokio::spawn(service.call(request("/a")));
    let (_, send) = arrives(&mut handle).await;
    send.send_error("its own");
    assert_eq!(answer.await.unwrap().unwrap_err().to_string(), "its own");
    assert_eq!(nodes.key_counts(), [0; 3]);
}

#[tokio::test]
async fn a_dropped_call_frees_the_key() {
    let (nodes, redlock) = nodes();
    let layer = RedlockLayer::new(redlock, key).http();

    let (mut service, mut handle) = mock::spawn_layer::<Call, Reply, _>(layer);

    assert!(service.poll_ready().is_ready());

    let answer = tokio::spawn(service.call(request("/a")));
    let (_, _send) = arrives(&mut handle).await;
    assert_eq!(nodes.key_counts(), [1; 3]);

    answer.abort();
    eventually_async("the key goes", async || nodes.key_counts() == [0; 3]).await;
}

#[tokio::test]
async fn plain_service_returns_both_errors() {
    let (nodes, redlock) = nodes();
    let layer = RedlockLayer::new(redlock.clone(), |name: &&'static str| *name)
        .wait(std::time::Duration::ZERO);

    let (mut service, mut handle) = mock::spawn_layer::<&'static str, u32, _>(layer);

    assert!(service.poll_ready().is_ready());

    let answer = tokio::spawn(service.call("a"));
    let (_, send) = arrives(&mut handle).await;
    assert_eq!(nodes.key_counts(), [1; 3]);
    assert!(service.poll_ready().is_ready());

    let refused = service.call("a").await.unwrap_err();
    assert!(matches!(refused, layer::GuardError::Lock(LockError::Held { .. })), "{refused}");

    send.send_response(7);
    assert_eq!(answer.await.unwrap().unwrap(), 7);
    assert_eq!(nodes.key_counts(), [0; 3], "given back with the response");
}
