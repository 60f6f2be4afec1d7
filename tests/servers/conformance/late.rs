//! Operations after their deadline are not run.

use std::sync::{Arc, Mutex};

use tower_redlock::Redlock;
use tower_redlock::node::{Answer, LeaseId};
use tower_redlock::time::{Clock, SystemClock, Timestamp};

use crate::fixture::mock_node::MockNode;

use super::contender::released;
use super::contender::{Response, TTL};
use super::{Contender, Subject, granted, now_token};

on_both! {
    late_acquire_is_not_run
    late_extension_is_not_run
    ended_lease_is_not_prolonged
    late_acquire_of_ended_lease
}

async fn late_acquire_is_not_run(subject: &Subject) {
    let contender = subject.contender("a");
    for expires in [Timestamp::ZERO, SystemClock::new().now()] {
        let reason = contender.ask(contender.acquire_op_until(expires, TTL, 1)).await.unwrap_err();
        assert!(!reason.may_have_run(), "{reason}");
    }
    assert_eq!(subject.contender("a").acquire().await, granted(false, 0));
}

async fn late_extension_is_not_run(subject: &Subject) {
    let contender = subject.contender("a");
    for until in [Timestamp::ZERO, SystemClock::new().now()] {
        let reason = contender.ask(contender.extend_op(TTL, until)).await.unwrap_err();
        assert!(!reason.may_have_run(), "{reason}");
    }
    assert_eq!(subject.contender("a").acquire().await, granted(false, 0));
}

async fn ended_lease_is_not_prolonged(subject: &Subject) {
    let lease = lease_that_is_over(subject).await;
    assert!(lease.is_over());
    let contender = Contender::new(subject.node().clone(), lease);
    assert_neither_raised_nor_extended(&contender).await;
    assert_eq!(contender.release().await, released(false, false));
    // Its acquire may arrive late, as its release follows.
    let fence = super::fence_of(&contender.acquire().await);
    assert_neither_raised_nor_extended(&contender).await;
    let response = subject.contender("a").acquire().await;
    assert!(matches!(response, Ok(Answer::Held(_))), "{response:?}");
    assert_eq!(super::fence_of(&response), fence, "an ended lease moved a fence");
    let (acquire, release) = (contender.acquire_op(TTL, 0), contender.release_op());
    let (acquired, ended) = (contender.ask(acquire), contender.ask(release));
    assert_eq!(acquired.await, granted(false, fence));
    assert_eq!(ended.await, released(true, true));
    assert_eq!(subject.contender("a").acquire().await, granted(false, fence));
}

async fn late_acquire_of_ended_lease(subject: &Subject) {
    let contender = Contender::new(subject.node().clone(), lease_that_is_over(subject).await);
    let expires = SystemClock::new().now();
    assert_not_run(&contender.ask(contender.acquire_op_until(expires, TTL, 0)).await);
    assert_eq!(contender.release().await, released(false, false));
}

async fn assert_neither_raised_nor_extended(contender: &Contender) {
    assert_not_run(&contender.raise(now_token() + 2_000_000).await);
    assert_not_run(&contender.extend().await);
}

#[track_caller]
fn assert_not_run(response: &Response) {
    assert!(matches!(response, Err(reason) if !reason.may_have_run()), "{response:?}");
}

/// The lease of a lock on "a" that a manager acquired and released.
async fn lease_that_is_over(subject: &Subject) -> Arc<LeaseId> {
    let seen = Arc::<Mutex<Option<Arc<LeaseId>>>>::default();
    let last = Arc::clone(&seen);
    let watched = MockNode::observing(subject.node(), move |op| {
        *last.lock().unwrap() = op.lease().cloned();
    });
    let manager = Redlock::builder().node(watched).ttl(TTL).node_timeout(TTL / 10).build().unwrap();
    manager.lock("a").await.unwrap().release().await.unwrap();
    let lease = seen.lock().unwrap().take();
    lease.expect("an operation was sent")
}
