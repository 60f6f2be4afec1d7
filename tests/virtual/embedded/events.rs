//! Events of a manager.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::sync::broadcast::{Receiver, error::TryRecvError};
use tower_redlock::{
    LockError, Redlock, Resource,
    error::LossCause,
    lock::{LockEvent, LockEventKind, Released},
    node::{AcquireOp, EmbeddedNodes, LeaseId, Nonce, Op, Reply},
    testing::{ManualClock, Nodes},
    time::Timestamp,
};

use crate::{
    durations::{MS, SECOND},
    embedded::nodes::managers,
    support::in_time,
};

const LONG: Duration = Duration::from_secs(60);

async fn next(events: &mut Receiver<LockEvent>) -> LockEventKind {
    in_time(events.recv()).await.expect("the sender is there").kind
}

#[tokio::test]
async fn prompt_locks_cause_no_event() {
    let (ours, _) = managers();
    let mut events = ours.events();
    for _ in 0..10 {
        let lock = ours.lock("a").await.unwrap();
        lock.extend().await.unwrap();
        assert_eq!(lock.release().await, Ok(Released::Released));
    }
    assert_eq!(events.try_recv(), Err(TryRecvError::Empty));
}

#[tokio::test]
async fn refusals_and_waits_are_reported() {
    let (ours, other) = managers();
    let mut events = ours.events();
    let held = other.lock("a").await.unwrap();
    let refused = ours.lock("a").await.unwrap_err();
    let LockEventKind::Refused { resource, error, .. } = next(&mut events).await else {
        panic!("another event");
    };
    assert_eq!((resource.to_string().as_str(), &error), ("a", &refused));
    assert!(matches!(error, LockError::Held { .. }), "{error}");
    let waiting = tokio::spawn(ours.lock("a").wait(LONG).into_future());
    // It waits in this process's queue, after the first one.
    let behind = tokio::spawn(ours.lock("a").wait(LONG).into_future());
    // Both are polled.
    tokio::task::yield_now().await;
    held.release().await.unwrap();
    let lock = in_time(waiting).await.unwrap().unwrap();
    let LockEventKind::Granted { token, waited, .. } = next(&mut events).await else {
        panic!("another event");
    };
    assert_eq!(token, lock.fencing_token());
    assert!(!waited.is_zero());
    lock.release().await.unwrap();
    let lock = in_time(behind).await.unwrap().unwrap();
    let LockEventKind::Granted { token, .. } = next(&mut events).await else {
        panic!("another event");
    };
    assert_eq!(token, lock.fencing_token());
}

#[tokio::test]
async fn losses_and_hard_stops_are_reported() {
    let clock = ManualClock::new();
    let nodes = Nodes::new(3, &clock);
    let [ours, other] = ["ours", "other"].map(|owner| nodes.replica(owner).redlock());
    let mut events = ours.events();
    let request = ours.lock("a").max_hold(SECOND);
    let mut stopped = clock.spawn(request.run(|_| std::future::pending::<()>()));
    clock.advance(SECOND);
    let stopped = stopped.take().expect("the hold ends");
    assert!(matches!(stopped, Err(LockError::Lost { .. })), "{stopped:?}");
    let lost = next(&mut events).await;
    assert!(
        matches!(lost, LockEventKind::Lost { cause: LossCause::MaxHold { .. }, .. }),
        "{lost:?}"
    );
    let stop = next(&mut events).await;
    assert!(matches!(stop, LockEventKind::HardStopped { .. }), "{stop:?}");
    assert_eq!(ours.counts().lost, 0, "the end was planned");
    let lock = ours.lock("b").await.unwrap();
    other.revoke("b").await.unwrap();
    let _next = other.lock("b").await.unwrap();
    clock.advance(MS);
    lock.extend().await.unwrap_err();
    let lost = next(&mut events).await;
    assert!(
        matches!(lost, LockEventKind::Lost { cause: LossCause::Stolen { .. }, .. }),
        "{lost:?}"
    );
    assert_eq!(ours.counts().lost, 1);
}

#[tokio::test]
async fn lagging_receivers_are_notified() {
    let (ours, other) = managers();
    let (mut first, mut second) = (ours.events(), ours.events());
    let _held = other.lock("a").await.unwrap();
    for _ in 0..1_030 {
        ours.lock("a").await.unwrap_err();
    }
    assert_eq!(first.try_recv(), Err(TryRecvError::Lagged(6)));
    assert!(first.try_recv().is_ok());
    assert_eq!(second.try_recv(), Err(TryRecvError::Lagged(6)));
    drop((first, second));
    ours.lock("a").await.unwrap_err();
}

/// The nodes have seen a token that is half a minute ahead.
#[tokio::test]
async fn raised_fence_is_reported_once() {
    let nodes = EmbeddedNodes::new(3);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let token = u64::try_from(now.as_micros()).unwrap() + 30_000_000;
    let nonce = Nonce::from_bytes([1; 16]);
    let lease =
        Arc::new(LeaseId::new(Resource::try_from("a").unwrap(), nonce, "other".into(), now));
    for node in nodes.nodes("redlock") {
        let acquire = AcquireOp::new(Arc::clone(&lease), LONG, Timestamp::MAX);
        for op in [Op::Acquire(acquire.fencing(token, token)), Op::Release(Arc::clone(&lease))] {
            node.send(op, Reply::from_fn(|answer| assert!(answer.is_ok(), "{answer:?}")));
        }
    }
    let redlock = Redlock::builder().nodes_from(&nodes).build().unwrap();
    let mut events = redlock.events();
    let lock = redlock.lock("a").await.unwrap();
    assert!(lock.fencing_token().get() > token);
    let raised = next(&mut events).await;
    let LockEventKind::FenceRaised { resource, token, .. } = &raised else { panic!("{raised:?}") };
    assert_eq!((resource.to_string().as_str(), *token), ("a", lock.fencing_token()));
    assert_eq!(events.try_recv(), Err(TryRecvError::Empty));
}
