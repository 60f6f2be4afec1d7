//! The contract of the plain tower layer: polls, errors, and timeouts.

use std::{
    convert::Infallible,
    future::{Future, pending, ready},
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
    layer::GuardError,
};

use crate::fixture::HANG_GUARD;

/// A request that can't be cloned.
struct Errand {
    key: &'static str,
}

#[tokio::test]
async fn nothing_happens_before_first_poll() {
    let calls = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&calls);
    let service = service_fn(move |errand: Errand| {
        counted.fetch_add(1, Ordering::SeqCst);
        ready(Ok::<_, Infallible>(errand.key))
    });
    let redlock = Redlock::embedded();
    let layer = RedlockLayer::new(redlock.clone(), |errand: &Errand| errand.key);
    let mut service = layer.layer(service);
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
