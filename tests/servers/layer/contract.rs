//! The contract of the plain tower layer: a strict inner service, errors, and timeouts.

use std::{
    convert::Infallible,
    future::{Future, Ready, pending, ready},
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use tower::{Layer, Service, ServiceBuilder, ServiceExt, service_fn, timeout::error::Elapsed};
use tower_redlock::{
    LockError, Redlock, RedlockLayer,
    error::{LossCause, ResourceError},
    layer::{GuardError, KeyError},
};

use crate::fixture::HANG_GUARD;

/// A request that can't be cloned.
struct Errand {
    key: &'static str,
}

/// A service that panics if it is called without having been ready; a clone is not ready.
#[derive(Debug, Default)]
struct Strict {
    is_ready: bool,
    calls: Arc<AtomicUsize>,
}

impl Clone for Strict {
    fn clone(&self) -> Self {
        Self { is_ready: false, calls: Arc::clone(&self.calls) }
    }
}

impl Service<Errand> for Strict {
    type Response = &'static str;
    type Error = Infallible;
    type Future = Ready<Result<&'static str, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.is_ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, errand: Errand) -> Self::Future {
        assert!(std::mem::take(&mut self.is_ready), "called without having been ready");
        self.calls.fetch_add(1, Ordering::SeqCst);
        ready(Ok(errand.key))
    }
}

fn key(errand: &Errand) -> Result<Option<&'static str>, KeyError> {
    match errand.key {
        "none" => Ok(None),
        "bad" => Err(KeyError::new("no key in the errand")),
        key => Ok(Some(key)),
    }
}

#[tokio::test]
async fn service_made_ready_is_one_called() {
    let strict = Strict::default();
    let calls = Arc::clone(&strict.calls);
    let layer = RedlockLayer::new(Redlock::embedded(), key).wait(HANG_GUARD);
    let mut service = layer.layer(strict);
    let mut answers = Vec::new();
    for key in ["a", "none", "a", "b", "none"] {
        answers.push(service.ready().await.unwrap().call(Errand { key }));
    }
    for (answer, key) in answers.into_iter().zip(["a", "none", "a", "b", "none"]) {
        assert_eq!(answer.await.unwrap(), key);
    }
    assert_eq!(calls.load(Ordering::SeqCst), 5);
    let clone = service.clone();
    assert_eq!(clone.oneshot(Errand { key: "a" }).await.unwrap(), "a");
}

/// Becomes ready, or fails, on request.
#[derive(Clone)]
struct Moody {
    is_ready: Arc<AtomicBool>,
    fails: bool,
}

impl Service<Errand> for Moody {
    type Response = ();
    type Error = &'static str;
    type Future = Ready<Result<(), &'static str>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        match (self.fails, self.is_ready.load(Ordering::SeqCst)) {
            (true, _) => Poll::Ready(Err("broken")),
            (false, true) => Poll::Ready(Ok(())),
            (false, false) => Poll::Pending,
        }
    }

    fn call(&mut self, _: Errand) -> Self::Future {
        ready(Ok(()))
    }
}

#[tokio::test]
async fn inner_service_is_readied_under_lock() {
    let redlock = Redlock::embedded();
    let is_ready = Arc::<AtomicBool>::default();
    let layer = RedlockLayer::new(redlock.clone(), key);
    let mut cx = Context::from_waker(Waker::noop());
    let mut service = layer.layer(Moody { is_ready: Arc::clone(&is_ready), fails: false });
    assert_eq!(service.poll_ready(&mut cx), Poll::Ready(Ok(())), "always");
    let mut unguarded = pin!(service.call(Errand { key: "none" }));
    assert!(unguarded.as_mut().poll(&mut cx).is_pending());
    let mut guarded = pin!(service.call(Errand { key: "a" }));
    assert!(guarded.as_mut().poll(&mut cx).is_pending());
    assert!(redlock.lock("a").await.is_err(), "it waits under its lock");
    is_ready.store(true, Ordering::SeqCst);
    assert_eq!(unguarded.await, Ok(()));
    assert_eq!(guarded.await, Ok(()));
    let mut service = layer.layer(Moody { is_ready, fails: true });
    for key in ["none", "a"] {
        assert_eq!(service.poll_ready(&mut cx), Poll::Ready(Ok(())), "always");
        let outcome = service.call(Errand { key }).await;
        assert_eq!(outcome, Err(GuardError::Work("broken")));
    }
    drop(redlock.lock("a").await.expect("it is released"));
}

#[tokio::test]
async fn nothing_happens_before_first_poll() {
    let strict = Strict::default();
    let calls = Arc::clone(&strict.calls);
    let redlock = Redlock::embedded();
    let mut service = RedlockLayer::new(redlock.clone(), key).layer(strict);
    let answer = service.ready().await.unwrap().call(Errand { key: "a" });
    drop(redlock.lock("a").await.expect("nobody holds it"));
    assert_eq!(calls.load(Ordering::SeqCst), 0);
    drop(answer);
    assert_eq!(calls.load(Ordering::SeqCst), 0);
}

type Outcome = Result<(), GuardError<Infallible>>;

fn by_name(name: &&'static str) -> &'static str {
    name
}

/// Sends a request to a service that does not respond.
async fn stuck(layer: RedlockLayer<fn(&&'static str) -> &'static str>) -> Outcome {
    let service = service_fn(|_| pending::<Result<(), Infallible>>());
    ServiceBuilder::new().layer(layer).service(service).oneshot("x").await
}

fn layer(redlock: &Redlock) -> RedlockLayer<fn(&&'static str) -> &'static str> {
    RedlockLayer::new(redlock.clone(), by_name)
}

async fn is_free(redlock: &Redlock) {
    drop(redlock.lock("x").await.expect("free"));
}

#[tokio::test]
async fn each_cause_has_its_own_error() {
    let redlock = Redlock::builder()
        .nodes_from(&tower_redlock::node::EmbeddedNodes::new(3))
        .owner("ourselves")
        .build()
        .unwrap();
    let lock = redlock.lock("x").await.unwrap();
    let held = stuck(layer(&redlock)).await;
    let Err(GuardError::Lock(LockError::Held { owner, .. })) = held else { panic!("{held:?}") };
    assert_eq!(owner.as_deref(), Some("ourselves"));
    let waited = stuck(layer(&redlock).wait(Duration::from_millis(20))).await;
    assert!(matches!(waited, Err(GuardError::Lock(LockError::WaitTimedOut { .. }))), "{waited:?}");
    drop(lock);
    // Longer than an acquire takes on a loaded machine.
    let limit = Duration::from_secs(1);
    let lost = stuck(layer(&redlock).max_hold(limit)).await;
    let cause = LossCause::MaxHold { limit };
    assert_eq!(lost, Err(GuardError::Lock(LockError::Lost { cause })));
    is_free(&redlock).await;
    let invalid = stuck(layer(&redlock).ttl(HANG_GUARD * 100)).await;
    assert!(matches!(invalid, Err(GuardError::Lock(LockError::InvalidRequest(_)))), "{invalid:?}");
    let unnamed = ServiceBuilder::new()
        .layer(RedlockLayer::new(redlock.clone(), |_: &u8| String::new()))
        .service(service_fn(|_| async { Ok::<_, Infallible>(()) }))
        .oneshot(0)
        .await;
    let error = LockError::InvalidResource(ResourceError::EmptyName);
    assert_eq!(unnamed, Err(GuardError::Lock(error)));
    let failed = ServiceBuilder::new()
        .layer(layer(&redlock))
        .service(service_fn(|_| async { Err::<(), _>("the service's own") }))
        .oneshot("x")
        .await;
    assert_eq!(failed, Err(GuardError::Work("the service's own")));
    is_free(&redlock).await;
    redlock.shutdown().await;
    assert_eq!(stuck(layer(&redlock)).await, Err(GuardError::Lock(LockError::Closed)));
}

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// The timeout's clock is manual, the locks' clock is not.
#[tokio::test(start_paused = true)]
async fn inner_timeout_is_the_services_error() {
    let redlock = Redlock::embedded();
    let works = Arc::<AtomicBool>::default();
    let is_stuck = Arc::clone(&works);
    let limit = Duration::from_millis(100);
    let service = ServiceBuilder::new()
        .layer(layer(&redlock).wait(HANG_GUARD))
        .timeout(limit)
        .service(service_fn(move |_| {
            let is_stuck = Arc::clone(&is_stuck);
            async move {
                if is_stuck.load(Ordering::SeqCst) {
                    pending::<()>().await;
                }
                Ok::<_, Infallible>(())
            }
        }));
    let lock = redlock.lock("x").await.unwrap();
    let mut waiting = pin!(service.clone().oneshot("x"));
    for _ in 0..3 {
        assert!(poll(waiting.as_mut()).is_pending(), "the wait for the lock is not the work");
        tokio::time::advance(limit).await;
    }
    drop(lock);
    waiting.await.unwrap();
    works.store(true, Ordering::SeqCst);
    let result = service.oneshot("x").await;
    let Err(GuardError::Work(error)) = result else { panic!("{result:?}") };
    assert!(error.is::<Elapsed>());
    is_free(&redlock).await;
}
