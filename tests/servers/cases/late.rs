//! Nodes whose answers come later than the TTL.

use std::time::{Duration, Instant};

use tower_redlock::{LockError, Redlock, RedlockBuilder, error::Reason};

use super::scene::{Scene, brisk, reasons};
use crate::support::{HANG_GUARD, eventually_async};

const LATE: Duration = Duration::from_millis(500);
const SHORT: Duration = Duration::from_millis(200);

async fn late(builder: RedlockBuilder) -> (Scene, Redlock) {
    let scene = Scene::new(5);
    let redlock = scene.proxied(builder).await;
    scene.proxies.iter().for_each(|proxy| proxy.set_delay(LATE));
    (scene, redlock)
}

#[tokio::test]
async fn late_votes_leave_no_key() {
    let (scene, redlock) = late(Redlock::builder().ttl(SHORT)).await;
    // A busy machine may need more than the node timeout (a tenth of the TTL: 20 ms) to send.
    eventually_async("all requests are sent and time out", async || {
        let started = Instant::now();
        let result = redlock.lock("x").await;
        let elapsed = started.elapsed();
        let Err(LockError::NoQuorum { votes }) = result else { panic!("{result:?}") };
        reasons(&votes) == vec![Reason::TimedOut; 5] && elapsed < LATE
    })
    .await;

    scene.all_keys_gone().await;
}

#[tokio::test]
async fn wait_with_late_answers_lacks_quorum() {
    let (scene, redlock) = late(Redlock::builder().ttl(SHORT)).await;
    let result = redlock.lock("x").wait(Duration::from_millis(300)).await;
    let Err(LockError::WaitTimedOut { last, waited }) = result else { panic!("{result:?}") };
    assert!(matches!(*last, LockError::NoQuorum { .. }), "{last:?}");
    assert!(waited >= Duration::from_millis(300) && waited < HANG_GUARD);
    scene.all_keys_gone().await;
}

#[tokio::test]
async fn late_grants_are_released() {
    let (scene, redlock) = late(brisk()).await;
    for _ in 0..3 {
        let result = redlock.lock("x").await;
        assert!(matches!(result, Err(LockError::NoQuorum { .. })), "{result:?}");
    }
    scene.all_keys_gone().await;
}
