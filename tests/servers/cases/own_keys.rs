//! Keys that an earlier attempt of the same client left on the servers, and keys of other programs.

use std::time::Duration;

use tower_redlock::{
    LockError, Redlock, RedlockBuilder, error::Reason, lock::Released, node::Answer,
};

use super::nodes::noted;
use crate::fixture::{
    Fixture, HANG_GUARD, RedisServer, brisk, eventually, key, patient, poll_once, reasons,
};

const TIMEOUT: Duration = Duration::from_millis(300);

/// A builder with enough time to send on a busy machine.
fn impatient() -> RedlockBuilder {
    brisk().node_timeout(TIMEOUT)
}

/// A manager over the nodes of the first manager, which only provides them.
async fn noting(fixture: &Fixture) -> (Redlock, Redlock, impl Fn() -> Vec<super::nodes::Outcome>) {
    let lender = fixture.proxied(impatient()).await;
    let (nodes, answers) = noted(&lender);
    let redlock = nodes.into_iter().fold(impatient(), RedlockBuilder::node);
    (lender, redlock.build().unwrap(), move || answers.lock().unwrap().clone())
}

#[tokio::test]
async fn retry_passes_its_timed_out_key() {
    let fixture = Fixture::new(3);
    let (_lender, redlock, answers) = noting(&fixture).await;
    // The servers grant, and every answer is too late to count.
    fixture.proxies.iter().for_each(|proxy| proxy.set_delay(TIMEOUT * 3));
    let slow = redlock.lock("x").max_attempts(4).wait(HANG_GUARD).await;
    let Err(LockError::NoQuorum { votes }) = slow else { panic!("{slow:?}") };
    assert_eq!(reasons(&votes), [Reason::TimedOut, Reason::TimedOut, Reason::TimedOut]);
    fixture.proxies.iter().for_each(|proxy| proxy.set_delay(Duration::ZERO));
    let lock = redlock.lock("x").wait(HANG_GUARD).await.unwrap();
    let held = |note: &super::nodes::Outcome| matches!(note, Ok(Answer::Held(_)));
    assert!(!answers().iter().any(held), "{:?}", answers());
    assert!(answers().iter().filter(|note| matches!(note, Ok(Answer::Granted(_)))).count() >= 3);
    drop(lock);
    fixture.all_keys_gone().await;
}

#[tokio::test]
async fn retry_passes_its_lost_grant() {
    let (fixture, redlock) = Fixture::patient_proxied().await;
    fixture.proxies.iter().for_each(|proxy| proxy.set_delay(HANG_GUARD));
    let mut request = Box::pin(redlock.lock("x").wait(HANG_GUARD).run(|_| async {}));
    assert!(poll_once(&mut request).is_pending());
    fixture.keys_everywhere().await;
    // Grants do not arrive, and keys cannot be released before the links are restored.
    for proxy in &fixture.proxies {
        proxy.cut();
        proxy.set_delay(Duration::ZERO);
        proxy.heal();
    }
    request.await.unwrap();
    fixture.all_keys_gone().await;
}

fn plant(servers: &[RedisServer]) {
    for server in servers {
        server.set(&key("x"), "foreign");
    }
}

#[track_caller]
fn untouched(servers: &[RedisServer]) {
    for server in servers {
        assert_eq!(server.get(&key("x")).as_deref(), Some(&b"foreign"[..]));
        assert_eq!(server.pttl(&key("x")), -1);
    }
}

#[tokio::test]
async fn foreign_minority_neither_blocks_nor_changes() {
    let fixture = Fixture::new(5);
    plant(&fixture.servers[..2]);
    let redlock = fixture.direct(patient()).await;
    let lock = redlock.lock("x").await.unwrap();
    lock.extend().await.unwrap();
    assert_eq!(lock.release().await, Ok(Released::Released));
    redlock.shutdown().await;
    untouched(&fixture.servers[..2]);
    assert_eq!(fixture.key_counts(), [1, 1, 0, 0, 0]);
}

#[tokio::test]
async fn foreign_majority_holds_without_end() {
    let fixture = Fixture::new(5);
    plant(&fixture.servers[2..]);
    let redlock = fixture.direct(patient()).await;
    let error = redlock.lock("x").await.unwrap_err();
    assert!(matches!(error, LockError::Held { expires_in: None, owner: None, .. }), "{error:?}");
    assert!(error.to_string().contains("held by another client"), "{error}");
    eventually("our own keys are gone", || fixture.key_counts() == [0, 0, 1, 1, 1]);
    untouched(&fixture.servers[2..]);
}
