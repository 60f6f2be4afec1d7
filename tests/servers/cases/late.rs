//! Nodes whose answers come later than the TTL.

use std::time::{Duration, Instant};

use tower_redlock::{LockError, Redlock, RedlockBuilder, error::Reason};

use crate::fixture::{Fixture, HANG_GUARD, eventually_async, reasons};

const DELAY: Duration = Duration::from_millis(500);
const TTL: Duration = Duration::from_millis(200);

async fn late(builder: RedlockBuilder) -> (Fixture, Redlock) {
    let fixture = Fixture::new(5);
    let redlock = fixture.proxied(builder).await;
    fixture.proxies.iter().for_each(|proxy| proxy.set_delay(DELAY));
    (fixture, redlock)
}

#[tokio::test]
async fn late_votes_leave_no_key() {
    let (fixture, redlock) = late(Redlock::builder().ttl(TTL)).await;
    // A busy machine may need more than the node timeout (a tenth of the TTL: 20 ms) to send.
    eventually_async("all requests are sent and time out", async || {
        let started = Instant::now();
        let result = redlock.lock("x").await;
        let elapsed = started.elapsed();
        let Err(LockError::NoQuorum { votes }) = result else { panic!("{result:?}") };
        reasons(&votes) == vec![Reason::TimedOut; 5] && elapsed < DELAY
    })
    .await;
    fixture.all_keys_gone().await;
}

#[tokio::test]
async fn wait_with_late_answers_lacks_quorum() {
    let (fixture, redlock) = late(Redlock::builder().ttl(TTL)).await;
    let result = redlock.lock("x").wait(Duration::from_millis(300)).await;
    let Err(LockError::WaitTimedOut { last, waited }) = result else { panic!("{result:?}") };
    assert!(matches!(*last, LockError::NoQuorum { .. }), "{last:?}");
    assert!(waited >= Duration::from_millis(300) && waited < HANG_GUARD);
    fixture.all_keys_gone().await;
}
