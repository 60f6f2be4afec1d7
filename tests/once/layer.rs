//! Services whose requests run once per key.

use std::{
    convert::Infallible,
    future::{Future, Ready, ready},
    pin::pin,
    task::{Context, Poll, Waker},
};

use tower::{Layer, Service, ServiceExt, service_fn};
use tower_redlock::{
    LockContext, LockError, OnceLayer, Redlock,
    error::ResourceError,
    layer::KeyError,
    once::{Once, OnceError, UnknownOutcome},
};

use super::scene::{HOUR, Runs};

fn key(request: &&'static str) -> Result<Option<Vec<String>>, KeyError> {
    match *request {
        "none" => Ok(None),
        "error" => Err(KeyError::new("no key")),
        "set" => Ok(Some(vec!["a".into(), "b".into()])),
        name => Ok(Some(vec![name.into()])),
    }
}

#[tokio::test]
async fn requests_run_once_per_key() {
    let runs = Runs::default();
    let counted = runs.clone();
    let mut service =
        OnceLayer::new(Redlock::embedded(), "hook", key).layer(service_fn(move |request| {
            let guarded = LockContext::current().is_some();
            let run = counted.run();
            async move {
                assert_eq!(guarded, request != "none");
                Ok::<_, Infallible>(run)
            }
        }));
    let mut call = async |request| service.ready().await.unwrap().call(request).await;
    assert!(matches!(call("a").await, Ok(Once::Ran(1))));
    assert!(matches!(call("a").await, Ok(Once::AlreadyDone { .. })));
    assert!(matches!(call("b").await, Ok(Once::Ran(2))));
    assert!(matches!(call("none").await, Ok(Once::Ran(3))));
    assert!(matches!(call("none").await, Ok(Once::Ran(4))));
    let rejected = |ended| match ended {
        Err(OnceError::Lock(LockError::InvalidResource(error))) => error,
        other => panic!("{other:?}"),
    };
    assert_eq!(rejected(call("error").await), ResourceError::Key("no key".into()));
    assert!(matches!(rejected(call("set").await), ResourceError::Setup(_)));
    assert_eq!(runs.count(), 4);
}

#[tokio::test]
async fn incomplete_responses_free_the_key() {
    for unknown in [UnknownOutcome::Release, UnknownOutcome::Hold(HOUR)] {
        leave_the_key_free(unknown).await;
    }
}

async fn leave_the_key_free(unknown: UnknownOutcome) {
    let runs = Runs::default();
    let counted = runs.clone();
    let layer = OnceLayer::new(Redlock::embedded(), "hook", key)
        .unknown(unknown)
        .complete_when(|status: &u16| *status < 500);
    let mut service = layer.layer(service_fn(move |_: &'static str| {
        let run = counted.run();
        async move {
            match run {
                1 => Err("broken"),
                2 | 3 => Ok(500),
                _ => Ok(200_u16),
            }
        }
    }));
    let mut call = async || service.ready().await.unwrap().call("a").await;
    assert!(matches!(call().await, Err(OnceError::Work("broken"))));
    assert!(matches!(call().await, Ok(Once::Ran(500))));
    assert!(matches!(call().await, Ok(Once::Ran(500))));
    assert!(matches!(call().await, Ok(Once::Ran(200))));
    assert!(matches!(call().await, Ok(Once::AlreadyDone { .. })));
    assert_eq!(runs.count(), 4);
}

#[tokio::test]
async fn layer_names_separate_keys() {
    let redlock = Redlock::embedded();
    let runs = Runs::default();
    let service = |name: &str| {
        let runs = runs.clone();
        OnceLayer::new(redlock.clone(), name, key)
            .layer(service_fn(move |_| std::future::ready(Ok::<_, Infallible>(runs.run()))))
    };
    assert!(matches!(service("github").oneshot("a").await, Ok(Once::Ran(1))));
    assert!(matches!(service("stripe").oneshot("a").await, Ok(Once::Ran(2))));
    assert!(matches!(service("github").oneshot("a").await, Ok(Once::AlreadyDone { .. })));
    // What a request sends makes it no key of another layer, nor of a client's Idempotency-Key.
    assert!(matches!(service("git").oneshot("hub:a").await, Ok(Once::Ran(3))));
    assert!(matches!(service("x").oneshot("idempotency:pay:1:s:k").await, Ok(Once::Ran(4))));
    assert!(redlock.once("github:a").status().await.unwrap().is_some());
    assert!(redlock.once("idempotency:pay:1:s:k").status().await.unwrap().is_none());
}

#[test]
fn ambiguous_layer_names_panic() {
    for name in ["", "a:b", "a b", "h\u{f6}k", "idempotency", &"x".repeat(65)] {
        let build = || OnceLayer::new(Redlock::embedded(), name, key);
        assert!(std::panic::catch_unwind(build).is_err(), "{name}");
    }
    drop(OnceLayer::new(Redlock::embedded(), "/hooks/github", key));
}

/// A service that is never ready.
#[derive(Clone)]
struct Busy;

impl Service<&'static str> for Busy {
    type Response = ();
    type Error = Infallible;
    type Future = Ready<Result<(), Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Pending
    }

    fn call(&mut self, _: &'static str) -> Self::Future {
        ready(Ok(()))
    }
}

#[test]
fn requests_wait_for_a_busy_service() {
    let mut service = OnceLayer::new(Redlock::embedded(), "hook", key).layer(Busy);
    let mut cx = Context::from_waker(Waker::noop());
    assert!(service.poll_ready(&mut cx).is_ready(), "always");
    assert!(pin!(service.call("none")).poll(&mut cx).is_pending());
}
