//! Services whose requests run once per key.

use std::{
    convert::Infallible,
    fmt::Debug,
    future::{Future, Ready, pending, ready},
    pin::pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use futures_util::future::BoxFuture;
use tower::{
    BoxError, Layer, Service, ServiceExt, service_fn,
    timeout::{Timeout, error::Elapsed},
};
use tower_redlock::{
    LockContext, LockError, OnceLayer, Redlock,
    error::ResourceError,
    layer::KeyError,
    once::{Once, OnceError, UnknownOutcome},
};

use super::fixture::{HOUR, Runs};

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
                1..=3 => Ok::<_, Infallible>(500),
                _ => Ok(200_u16),
            }
        }
    }));
    let mut call = async || service.ready().await.unwrap().call("a").await;
    for _ in 0..3 {
        assert!(matches!(call().await, Ok(Once::Ran(500))));
    }
    assert!(matches!(call().await, Ok(Once::Ran(200))));
    assert!(matches!(call().await, Ok(Once::AlreadyDone { .. })));
    assert_eq!(runs.count(), 4);
}

/// A service whose first call has its effect and does not return, or that does not become ready at first.
#[derive(Clone, Default)]
struct Charges {
    runs: Runs,
    readied: Runs,
    is_unready: bool,
}

impl Service<&'static str> for Charges {
    type Response = usize;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<usize, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        let is_first = self.readied.run() == 1;
        Poll::Ready(if self.is_unready && is_first { Err("not ready".into()) } else { Ok(()) })
    }

    fn call(&mut self, _: &'static str) -> Self::Future {
        let (run, returns) = (self.runs.run(), self.is_unready);
        Box::pin(async move {
            if run == 1 && !returns {
                pending::<()>().await;
            }
            Ok(run)
        })
    }
}

const SOON: Duration = Duration::from_millis(10);
const UNKNOWN: [UnknownOutcome; 2] = [UnknownOutcome::Release, UnknownOutcome::Hold(HOUR)];

/// Calls the service again, after the first call has failed: held, it does not run again.
async fn assert_next_calls<S>(service: S, charges: &Charges, unknown: UnknownOutcome)
where
    S: Service<&'static str, Response = Once<usize>, Error: Debug> + Clone,
{
    let again = service.clone().oneshot("a").await.unwrap();
    let last = service.oneshot("a").await.unwrap();
    if unknown == UnknownOutcome::Release {
        assert_eq!(again, Once::Ran(2));
        assert!(matches!(last, Once::AlreadyDone { .. }), "{last:?}");
        assert_eq!(charges.runs.count(), 2);
    } else {
        for ended in [again, last] {
            assert!(matches!(ended, Once::InProgress { unknown: true, .. }), "{ended:?}");
        }
        assert_eq!(charges.runs.count(), 1);
    }
}

#[tokio::test]
async fn inner_timeout_has_an_unknown_outcome() {
    for unknown in UNKNOWN {
        let charges = Charges::default();
        let layer = OnceLayer::new(Redlock::embedded(), "pay", key).unknown(unknown);
        let service = layer.layer(Timeout::new(charges.clone(), SOON));
        let error = service.clone().oneshot("a").await.unwrap_err();
        assert!(matches!(&error, OnceError::Work(error) if error.is::<Elapsed>()), "{error:?}");
        assert_next_calls(service, &charges, unknown).await;
    }
}

#[tokio::test]
async fn outer_timeout_has_an_unknown_outcome() {
    for unknown in UNKNOWN {
        let charges = Charges::default();
        let layer = OnceLayer::new(Redlock::embedded(), "pay", key).unknown(unknown);
        let service = layer.layer(charges.clone());
        let error = Timeout::new(service.clone(), SOON).oneshot("a").await.unwrap_err();
        assert!(error.is::<Elapsed>(), "{error:?}");
        assert_next_calls(service, &charges, unknown).await;
    }
}

#[tokio::test]
async fn unready_service_frees_the_key() {
    for unknown in UNKNOWN {
        let charges = Charges { is_unready: true, ..Charges::default() };
        let layer = OnceLayer::new(Redlock::embedded(), "pay", key).unknown(unknown);
        let service = layer.layer(charges.clone());
        let error = service.clone().oneshot("a").await.unwrap_err();
        assert!(matches!(error, OnceError::Work(_)), "{error:?}");
        assert_eq!(service.clone().oneshot("a").await.unwrap(), Once::Ran(1));
        assert!(matches!(service.oneshot("a").await.unwrap(), Once::AlreadyDone { .. }));
    }
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
    assert!(redlock.once_key("layer:github:a").status().await.unwrap().is_some());
    assert!(redlock.once_key("idempotency:pay:1:s:k").status().await.unwrap().is_none());
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
