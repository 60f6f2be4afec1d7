//! Keys that an earlier attempt of the same client left on the servers.

use std::time::Duration;

use tower_redlock::{LockError, Redlock, RedlockBuilder, error::Reason, node::Answer};

use super::{
    nodes::noted,
    scene::{Scene, brisk, patient, poll_once, reasons},
};
use crate::support::HANG_GUARD;

const TIMEOUT: Duration = Duration::from_millis(300);

/// A builder with enough time to send on a busy machine.
fn impatient() -> RedlockBuilder {
    brisk().node_timeout(TIMEOUT)
}

/// A manager over the nodes of the first manager, which only provides them.
async fn noting(scene: &Scene) -> (Redlock, Redlock, impl Fn() -> Vec<super::nodes::Outcome>) {
    let lender = scene.proxied(impatient()).await;
    let (nodes, answers) = noted(&lender);
    let redlock = nodes.into_iter().fold(impatient(), RedlockBuilder::node);
    (lender, redlock.build().unwrap(), move || answers.lock().unwrap().clone())
}

#[tokio::test]
async fn retry_passes_its_timed_out_key() {
    let scene = Scene::new(3);
    let (_lender, redlock, answers) = noting(&scene).await;
    // The servers grant, and every answer is too late to count.
    scene.proxies.iter().for_each(|proxy| proxy.set_delay(TIMEOUT * 3));
    let slow = redlock.lock("x").max_attempts(4).wait(HANG_GUARD).await;
    let Err(LockError::NoQuorum { votes }) = slow else { panic!("{slow:?}") };
    assert_eq!(reasons(&votes), [Reason::TimedOut, Reason::TimedOut, Reason::TimedOut]);

    scene.proxies.iter().for_each(|proxy| proxy.set_delay(Duration::ZERO));
    let lock = redlock.lock("x").wait(HANG_GUARD).await.unwrap();
    let held = |note: &super::nodes::Outcome| matches!(note, Ok(Answer::Held(_)));
    assert!(!answers().iter().any(held), "{:?}", answers());
    assert!(answers().iter().filter(|note| matches!(note, Ok(Answer::Granted(_)))).count() >= 3);
    drop(lock);
    scene.all_keys_gone().await;
}

#[tokio::test]
async fn retry_passes_its_lost_grant() {
    let scene = Scene::new(3);
    let redlock = scene.proxied(patient()).await;
    scene.proxies.iter().for_each(|proxy| proxy.set_delay(HANG_GUARD));

    let mut request = Box::pin(redlock.lock("x").wait(HANG_GUARD).run(|_| async {}));

    assert!(poll_once(&mut request).is_pending());

    scene.keys_everywhere().await;
    // Grants do not arrive, and keys cannot be released before the links are restored.
    for proxy in &scene.proxies {
        proxy.cut();
        proxy.set_delay(Duration::ZERO);
        proxy.heal();
    }
    request.await.unwrap();
    scene.all_keys_gone().await;
}
