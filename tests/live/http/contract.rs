//! The contract of a tower service, with a strict service: it panics if it is called without having
//! been ready, and its clones are not ready.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use tokio::task::JoinHandle;
use tower::BoxError;
use tower_redlock::{
    LockError, Redlock, RedlockLayer,
    layer::{
        self, RedlockService,
        http::{HttpBody, RedlockHttp},
    },
    node::EmbeddedNodes,
};
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

type Locked = mock::Spawn<RedlockService<mock::Mock<Call, Reply>, Key, RedlockHttp>>;
type Key = fn(&Call) -> Option<String>;

/// A mock service under the lock of its requests' paths, and the nodes.
fn locked() -> (EmbeddedNodes, Locked, mock::Handle<Call, Reply>) {
    let (nodes, redlock) = nodes();
    let (service, handle) = mock::spawn_layer(RedlockLayer::new(redlock, key as Key).http());
    (nodes, service, handle)
}

/// Sends a request, which reaches the service.
async fn sent(
    service: &mut Locked,
    handle: &mut mock::Handle<Call, Reply>,
    path: &str,
) -> (JoinHandle<Result<Response<HttpBody<Full<Bytes>>>, BoxError>>, mock::SendResponse<Reply>) {
    assert!(service.poll_ready().is_ready(), "the layer is always ready");
    let answer = tokio::spawn(service.call(request(path)));
    let (seen, send) = arrives(handle).await;
    assert_eq!(seen.uri(), path);
    (answer, send)
}

#[tokio::test]
async fn keys_are_held_until_the_call_ends() {
    let (nodes, mut service, mut handle) = locked();

    let (answer, send) = sent(&mut service, &mut handle, "/").await;
    assert_eq!(nodes.key_counts(), [0; 3], "a request without a key needs no lock");
    send.send_response(reply("done"));
    assert_eq!(answer.await.unwrap().unwrap().status(), 200);

    let (answer, send) = sent(&mut service, &mut handle, "/a").await;
    assert_eq!(nodes.key_counts(), [1; 3]);
    send.send_error("its own");
    assert_eq!(answer.await.unwrap().unwrap_err().to_string(), "its own");
    assert_eq!(nodes.key_counts(), [0; 3], "an error of the service releases the lock");

    let (answer, _send) = sent(&mut service, &mut handle, "/a").await;
    assert_eq!(nodes.key_counts(), [1; 3]);
    answer.abort();
    eventually_async("the dropped call releases the lock", async || nodes.key_counts() == [0; 3])
        .await;
}

fn nodes() -> (EmbeddedNodes, Redlock) {
    let nodes = EmbeddedNodes::new(3);
    let redlock = Redlock::builder().nodes_from(&nodes).wait(HANG_GUARD).build().unwrap();
    (nodes, redlock)
}

#[tokio::test]
async fn broken_service_fails_its_requests() {
    let (nodes, mut service, mut handle) = locked();

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
    let (nodes, mut service, mut handle) = locked();

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
async fn requests_for_one_key_are_sequential() {
    let (_, mut service, mut handle) = locked();
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
