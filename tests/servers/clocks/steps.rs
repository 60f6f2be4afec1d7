//! Steps of servers' clocks that are too small for the detector, or come after the holder's last
//! reading.

use std::time::{Duration, Instant};

use tower_redlock::{LockError, Redlock, RedlockBuilder, error::VoteOutcome};

use crate::fixture::{
    LONG, RedisServer,
    clock::{Fixture, is_jump},
    in_time,
};

/// TTLs, and steps that came between a lock's slack and what an idle client tolerated.
const SHORT: (Duration, f64) = (Duration::from_millis(400), 0.030);
const LONGER: (Duration, f64) = (Duration::from_secs(2), 0.035);
/// Without a request for this time, a client is idle.
const IDLE_AFTER: Duration = Duration::from_secs(10);
/// The time between two readings of an idle client that used to be allowed is a second longer.
const STALE: u64 = 4;

fn builder(ttl: Duration) -> RedlockBuilder {
    Redlock::builder().ttl(ttl).max_ttl(IDLE_AFTER)
}

fn step_majority(fixture: &Fixture, by: f64) {
    for server in &fixture.servers[..2] {
        server.set_clock_offset(by);
    }
}

/// The longest time, in seconds, for which a connection that sends votes has been silent.
fn longest_silence(server: &RedisServer) -> u64 {
    let clients = server.cli(&["CLIENT", "LIST"]).text();
    let field = |line: &str, name: &str| -> Option<u64> {
        line.split(' ').find_map(|field| field.strip_prefix(name))?.parse().ok()
    };
    let votes =
        clients.lines().filter(|line| !line.contains("cmd=client") && line.contains("sub=0"));
    votes.filter_map(|line| field(line, "idle=")).max().unwrap_or(0)
}

/// Waits until the client is idle, and has read the clocks as long ago as it ever does.
async fn until_reading_is_old(server: &RedisServer, began: Instant) {
    tokio::time::sleep(IDLE_AFTER + Duration::from_secs(1)).await;
    while longest_silence(server) < STALE && began.elapsed() < IDLE_AFTER * 2 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The validity sets aside what the step takes from the keys.
#[tokio::test]
async fn short_lock_ends_before_its_keys() {
    let (ttl, step) = SHORT;
    let Some(fixture) = Fixture::new() else { return };
    let redlock = fixture.manager(Redlock::builder().ttl(ttl).max_ttl(LONG)).await;
    let lock = in_time(async { redlock.lock("a").auto_extend(false).await }).await.unwrap();
    // Renewed keys live for the TTL; those that an acquire stores live for a node timeout more.
    in_time(lock.extend()).await.unwrap();

    step_majority(&fixture, step);

    for server in &fixture.servers[..2] {
        let left = server.pttl(crate::fixture::clock::KEY);
        let valid = lock.remaining().as_millis();
        assert!(valid > 0, "the test took too long");
        assert!(left >= i64::try_from(valid).unwrap(), "{left} ms, valid for {valid} ms");
    }
}

/// A reading of the clock is at most two seconds old when the next one judges a grant.
#[tokio::test]
async fn idle_client_sees_step_above_slack() {
    let (ttl, step) = LONGER;
    let Some(fixture) = Fixture::new() else { return };
    let began = Instant::now();
    let idle = fixture.manager(builder(ttl)).await;
    until_reading_is_old(&fixture.servers[0], began).await;
    step_majority(&fixture, step);
    let votes = match in_time(async { idle.lock("a").await }).await {
        Err(LockError::NoQuorum { votes }) => votes,
        other => panic!("two servers of three may have dropped keys: {other:?}"),
    };
    let is_seen = |node: usize| match &votes[node].outcome {
        VoteOutcome::NotCounted(reason) => is_jump(reason),
        _ => false,
    };
    assert!(is_seen(0) || is_seen(1), "{votes}");
}
