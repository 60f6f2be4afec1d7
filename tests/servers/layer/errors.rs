//! Errors of requests that do not run to their end; tower's timeouts.

use std::{
    convert::Infallible,
    future::{Future, pending},
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn, timeout::error::Elapsed};
use tower_redlock::{
    LockError, Redlock, RedlockLayer,
    error::{LossCause, ResourceError},
    layer::GuardError,
};

use crate::support::{HANG_GUARD, eventually_async};

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
    assert_eq!(failed, Err(GuardError::Service("the service's own")));
    is_free(&redlock).await;

    redlock.shutdown().await;
    assert_eq!(stuck(layer(&redlock)).await, Err(GuardError::Lock(LockError::Closed)));
}

#[tokio::test]
async fn outer_timeout_ends_wait_and_work() {
    let redlock = Redlock::embedded();
    let service = ServiceBuilder::new()
        .timeout(Duration::from_millis(50))
        .layer(layer(&redlock).wait(HANG_GUARD))
        .service(service_fn(|_| pending::<Result<(), Infallible>>()));
    let lock = redlock.lock("x").await.unwrap();

    let waiting: Result<(), BoxError> = service.clone().oneshot("x").await;

    assert!(waiting.unwrap_err().is::<Elapsed>());

    drop(lock);
    is_free(&redlock).await;
    let working: Result<(), BoxError> = service.oneshot("x").await;
    assert!(working.unwrap_err().is::<Elapsed>());

    is_free(&redlock).await;
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
    let Err(GuardError::Service(error)) = result else { panic!("{result:?}") };
    assert!(error.is::<Elapsed>());
    is_free(&redlock).await;
}

/// Clears its flag when it is dropped.
struct Running(Arc<AtomicBool>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn lost_request_drops_before_its_error() {
    let redlock = Redlock::embedded();
    let running = Arc::<AtomicBool>::default();
    let flag = Arc::clone(&running);
    let service = ServiceBuilder::new()
        .layer(layer(&redlock).max_hold(Duration::from_millis(100)))
        .service(service_fn(move |_| {
            flag.store(true, Ordering::SeqCst);
            let running = Running(Arc::clone(&flag));
            async move {
                let _running = running;
                pending::<Result<(), Infallible>>().await
            }
        }));
    let answer = tokio::spawn(service.oneshot("x"));
    eventually_async("it runs", async || running.load(Ordering::SeqCst)).await;

    let result = answer.await.unwrap();

    assert!(!running.load(Ordering::SeqCst));
    assert!(matches!(result, Err(GuardError::Lock(LockError::Lost { .. }))), "{result:?}");
}
