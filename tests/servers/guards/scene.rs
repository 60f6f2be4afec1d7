//! Sets with the restart guard on, and the guard's keys on their servers.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use tower_redlock::{
    Lock, LockError, Redlock, RedlockBuilder,
    error::{Reason, VoteOutcome, Votes},
    node::{NodeHealth, NodeState, redis::RestartGuard},
};

pub(crate) use crate::support::{LONG, all_vote, in_time, urls};
use crate::support::{RedisServer, Resp, eventually_async, hand_clock::HandClock, over};

/// The longest TTL, and the approximate length of a probation.
pub(crate) const MAX_TTL: Duration = Duration::from_secs(1);

/// Settings under which a probation lasts about a second.
pub(crate) fn quick() -> RedlockBuilder {
    Redlock::builder().ttl(MAX_TTL).node_timeout(Duration::from_millis(100))
}

/// A builder with nodes named by their order, and with the restart guard.
pub(crate) fn guarded<I>(builder: RedlockBuilder, urls: I) -> RedlockBuilder
where
    I: IntoIterator,
    I::Item: Into<tower_redlock::node::redis::NodeAddress>,
{
    over(builder, urls).restart_guard(RestartGuard::Probation)
}

/// A guarded manager over all servers.
pub(crate) fn manager(servers: &[RedisServer]) -> Redlock {
    guarded(quick(), urls(servers)).build().expect("valid settings")
}

/// A manager whose nodes all vote.
pub(crate) async fn settled(servers: &[RedisServer]) -> Redlock {
    let redlock = manager(servers);
    all_vote(&redlock).await;
    redlock
}

pub(crate) async fn votes(redlock: &Redlock, node: usize) {
    eventually_async("the node votes", async || redlock.health()[node].is_voting()).await;
}

pub(crate) fn in_probation(health: &NodeHealth) -> bool {
    matches!(health.state, NodeState::Probation { .. })
}

/// Waits until all of these nodes are in probation.
pub(crate) async fn probation(redlock: &Redlock, nodes: &[usize]) {
    eventually_async("the nodes are in probation", async || {
        let health = redlock.health();
        nodes.iter().all(|node| in_probation(&health[*node]))
    })
    .await;
}

/// Waits until the node is connected and has no vote, and returns the reason.
pub(crate) async fn refusal(redlock: &Redlock, node: usize) -> Reason {
    let mut found = None;
    eventually_async("the node has no vote", async || {
        if let NodeState::Refusing { reason, .. } = &redlock.health()[node].state {
            found = Some(reason.clone());
        }
        found.is_some()
    })
    .await;
    found.expect("a reason")
}

/// The votes of an attempt that finds no quorum.
pub(crate) async fn refused(redlock: &Redlock, name: &str) -> Votes {
    match in_time(async { redlock.lock(name).await }).await {
        Err(LockError::NoQuorum { votes }) => votes,
        other => panic!("expected NoQuorum, got {other:?}"),
    }
}

/// The reason why a vote did not count; panics if it did.
#[track_caller]
pub(crate) fn reason(votes: &Votes, node: usize) -> Reason {
    match &votes[node].outcome {
        VoteOutcome::NotCounted(reason) => reason.clone(),
        other => panic!("{} has {other:?}", votes[node].node),
    }
}

/// Checks that after `act`, which makes node `node` forget, this is soon detected, and the node
/// votes again after a full probation.
pub(crate) async fn forgets(redlock: &Redlock, node: usize, act: impl FnOnce()) {
    let started = Instant::now();
    act();
    let acted = Instant::now();
    probation(redlock, &[node]).await;
    // Health checks run every second.
    assert!(acted.elapsed() < Duration::from_secs(3), "detected after {:?}", acted.elapsed());
    votes(redlock, node).await;
    assert!(started.elapsed() > MAX_TTL, "it votes after {:?}", started.elapsed());
}

/// The enrolment stored on a server.
pub(crate) fn meta(server: &RedisServer) -> BTreeMap<String, String> {
    hash(server, "redlock:meta")
}

pub(crate) fn hash(server: &RedisServer, key: &str) -> BTreeMap<String, String> {
    pairs(server.cli(&["HGETALL", key]))
}

pub(crate) fn pairs(answer: Resp) -> BTreeMap<String, String> {
    let items: Vec<String> = answer.items().into_iter().map(Resp::text).collect();
    items.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
}

/// The part of a tag that stays the same until the next enrolment.
pub(crate) fn enrolment(server: &RedisServer) -> String {
    tag(server)[1..77].to_owned()
}

pub(crate) fn tag(server: &RedisServer) -> String {
    server
        .cli(&["HGET", "redlock:meta", "tag"])
        .bytes()
        .map_or(String::new(), |tag| String::from_utf8(tag).expect("a tag is ASCII"))
}

/// The key of the fences of a server.
pub(crate) fn fences_key(server: &RedisServer) -> String {
    let tag = tag(server);
    match tag.strip_prefix("a ") {
        Some(_) if tag.len() > 94 => format!("redlock:fences:{}", &tag[78..]),
        Some(_) => format!("redlock:fences:{}", &tag[35..51]),
        None => "redlock:fences".to_owned(),
    }
}

/// The fences of all stripes with a fence.
pub(crate) fn fences(server: &RedisServer) -> BTreeMap<String, u64> {
    let scores = pairs(server.cli(&["ZRANGE", &fences_key(server), "0", "-1", "WITHSCORES"]));
    let numbers = scores.into_iter().map(|(stripe, score)| (stripe, whole(&score)));
    numbers.filter(|(_, fence)| *fence > 0).collect()
}

/// Reads a score, which newer servers write as `1.7e+15`.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "fences are exact")]
fn whole(score: &str) -> u64 {
    score.parse::<f64>().expect("a score") as u64
}

/// A wall clock that is an hour behind: the tokens that it proposes are below all others.
pub(crate) fn slow() -> HandClock {
    HandClock::skewed(-3_600_000)
}

/// Acquires the lock, with retries during a probation or while another client holds it.
pub(crate) async fn taken(redlock: &Redlock, name: &str) -> Lock {
    in_time(async {
        loop {
            match redlock.lock(name).wait(LONG).await {
                Ok(lock) => return lock,
                Err(LockError::InvalidRequest(text)) => panic!("{text}"),
                Err(_) => {}
            }
        }
    })
    .await
}

/// Acquires and releases a lock.
pub(crate) async fn works(redlock: &Redlock) {
    let released = taken(redlock, "works").await.release().await;
    released.unwrap_or_else(|error| panic!("no release: {error}"));
}
