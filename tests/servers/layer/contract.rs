//! The requirements on a tower service, and the guarantees to it.

use std::{
    convert::Infallible,
    future::{Ready, poll_fn, ready},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
};

use tower::{Layer, Service, ServiceExt, service_fn};
use tower_redlock::{
    LockContext, Redlock, RedlockLayer, layer::GuardError, layer::KeyError, lock::Released,
};

use crate::support::HANG_GUARD;

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

#[tokio::test]
async fn bad_key_does_not_reach_service() {
    let strict = Strict::default();
    let calls = Arc::clone(&strict.calls);
    let mut service = RedlockLayer::new(Redlock::embedded(), key).layer(strict);
    let answer = service.ready().await.unwrap().call(Errand { key: "bad" }).await;
    assert_eq!(answer.unwrap_err().to_string(), "invalid resource: no key in the errand");
    assert_eq!(calls.load(Ordering::SeqCst), 0);
    // The service is still ready.
    assert_eq!(service.call(Errand { key: "a" }).await.unwrap(), "a");
}

#[tokio::test]
async fn request_without_key_runs_unguarded() {
    let redlock = Redlock::embedded();
    let service = RedlockLayer::new(redlock.clone(), key).layer(service_fn(|_: Errand| async {
        Ok::<_, Infallible>(LockContext::current().map(|cx| cx.resource().to_string()))
    }));
    let lock = redlock.lock("a").await.unwrap();

    let unguarded = service.clone().oneshot(Errand { key: "none" }).await;

    assert_eq!(unguarded.unwrap(), None);
    assert_eq!(lock.release().await, Ok(Released::Released));

    let guarded = service.oneshot(Errand { key: "a" }).await;
    assert_eq!(guarded.unwrap().as_deref(), Some("a"));
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
        assert_eq!(outcome, Err(GuardError::Service("broken")));
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

#[tokio::test]
async fn dropped_answer_frees_the_key() {
    let redlock = Redlock::embedded();
    let service = RedlockLayer::new(redlock.clone(), key)
        .layer(service_fn(|_: Errand| std::future::pending::<Result<(), Infallible>>()));
    {
        let mut answer = pin!(service.oneshot(Errand { key: "a" }));
        poll_fn(|cx| {
            assert!(answer.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        assert!(redlock.lock("a").await.is_err(), "the request holds it");
    }

    drop(redlock.lock("a").await.expect("free"));
}
