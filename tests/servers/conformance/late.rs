//! What is over is not run any more.

use std::sync::{Arc, Mutex};

use tower_redlock::node::{Answer, LeaseId, Node, Op, Reply};
use tower_redlock::time::{Clock, SystemClock, Timestamp};
use tower_redlock::{NodeHealth, Redlock};

use super::party::TTL;
use super::{Party, Subject, granted};

on_both! {
    an_acquire_after_its_end_is_not_run
    an_extension_after_the_validity_is_not_run
    nothing_but_the_release_of_a_lease_that_is_over_is_run
}

async fn an_acquire_after_its_end_is_not_run(subject: &Subject) {
    let party = subject.party("a");
    for expires in [Timestamp::ZERO, SystemClock::new().now()] {
        let reason = party.ask(party.acquire_op_until(expires, TTL, 1)).await.unwrap_err();
        assert!(!reason.may_have_run(), "{reason}");
    }
    assert_eq!(subject.party("a").acquire().await, granted(false, 0));
}

async fn an_extension_after_the_validity_is_not_run(subject: &Subject) {
    let party = subject.party("a");
    for until in [Timestamp::ZERO, SystemClock::new().now()] {
        let reason = party.ask(party.extend_op(TTL, until)).await.unwrap_err();
        assert!(!reason.may_have_run(), "{reason}");
    }
    assert_eq!(subject.party("a").acquire().await, granted(false, 0));
}

async fn nothing_but_the_release_of_a_lease_that_is_over_is_run(subject: &Subject) {
    let lease = lease_that_is_over(subject).await;
    assert!(lease.is_over());
    let party = Party::new(subject.node().clone(), lease);
    for said in [party.acquire().await, party.extend().await, party.raise(1).await] {
        let reason = said.unwrap_err();
        assert!(!reason.may_have_run(), "{reason}");
    }
    assert_eq!(party.release().await, Ok(Answer::Released { existed: false }));
    let fence = super::fence_of(&subject.party("b").acquire().await);
    assert_eq!(fence, 0, "a lease that was over moved a fence");
    assert!(matches!(subject.party("a").acquire().await, Ok(Answer::Granted { .. })));
}

/// The lease of a lock on "a" that a manager took and gave back.
async fn lease_that_is_over(subject: &Subject) -> Arc<LeaseId> {
    let watched = Watched { inner: subject.node().clone(), seen: Arc::default() };
    let seen = watched.seen.clone();
    let manager = Redlock::builder().node(watched).ttl(TTL).node_timeout(TTL / 10).build().unwrap();
    manager.lock("a").await.unwrap().release().await.unwrap();
    let lease = seen.lock().unwrap().take();
    lease.expect("an operation was sent")
}

/// Remembers the lease of what passes through.
#[derive(Debug)]
struct Watched {
    inner: Arc<dyn Node>,
    seen: Arc<Mutex<Option<Arc<LeaseId>>>>,
}

impl Node for Watched {
    fn send(&self, op: Op, reply: Reply) {
        *self.seen.lock().unwrap() = Some(op.lease().clone());
        self.inner.send(op, reply);
    }

    fn name(&self) -> &str {
        self.inner.name()
    }

    fn health(&self) -> NodeHealth {
        self.inner.health()
    }
}
