//! Services whose requests run once per key.

use std::convert::Infallible;

use tower::{Layer, Service, ServiceExt, service_fn};
use tower_redlock::{
    KeyError, LockContext, LockError, Once, OnceError, OnceLayer, Redlock, ResourceError, Unknown,
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
async fn requests_run_once_per_key_and_those_without_one_every_time() {
    let runs = Runs::default();
    let counted = runs.clone();
    let mut service = OnceLayer::new(Redlock::embedded(), key).layer(service_fn(move |request| {
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
    assert!(matches!(rejected(call("idempotency:1:a:k").await), ResourceError::Key(_)));
    assert_eq!(runs.count(), 4);
}

#[tokio::test]
async fn errors_and_responses_that_do_not_complete_leave_the_key_free() {
    for unknown in [Unknown::Release, Unknown::Hold(HOUR)] {
        leave_the_key_free(unknown).await;
    }
}

async fn leave_the_key_free(unknown: Unknown) {
    let runs = Runs::default();
    let counted = runs.clone();
    let layer = OnceLayer::new(Redlock::embedded(), key)
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
