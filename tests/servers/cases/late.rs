//! Nodes whose answers come later than the TTL.

use std::time::{Duration, Instant};

use tower_redlock::{LockError, Redlock, error::Reason};

use crate::fixture::{Fixture, eventually_async, reasons};

const DELAY: Duration = Duration::from_millis(500);
const TTL: Duration = Duration::from_millis(200);

#[tokio::test]
async fn late_votes_leave_no_key() {
    let fixture = Fixture::new(5);
    let redlock = fixture.proxied(Redlock::builder().ttl(TTL)).await;
    fixture.proxies.iter().for_each(|proxy| proxy.set_delay(DELAY));
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
