//! Sets with the restart guard on, and what their servers keep of it.

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

/// The longest TTL, and so about the length of a probation.
pub(crate) const MAX_TTL: Duration = Duration::from_secs(1);

/// Settings under which a probation lasts about a second.
pub(crate) fn quick() -> RedlockBuilder {
    Redlock::builder().ttl(MAX_TTL).node_timeout(Duration::from_millis(100))
}

/// Nodes named by their order, with the restart guard.
pub(crate) fn guarded<I>(builder: RedlockBuilder, urls: I) -> RedlockBuilder
where
    I: IntoIterator,
    I::Item: Into<String>,
{
    over(builder, urls).restart_guard(RestartGuard::Quarantine)
}

/// A guarded manager over all servers.
pub(crate) fn manager(servers: &[RedisServer]) -> Redlock {
    guarded(quick(), urls(servers)).build().expect("valid settings")
}

/// The same, once every node votes.
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

/// Waits until the node is connected, and has no vote; why.
pub(crate) async fn refusal(redlock: &Redlock, node: usize) -> Reason {
    let mut found = None;
    eventually_async("the node has no vote", async || {
        if let NodeState::Refusing { reason, .. } = &redlock.health()[node].state {
            found = Some(reason.clone());
        }
        found.is_some()
    })
    .await;
    found.expect("it was found")
}

/// The votes of an attempt that finds no quorum.
pub(crate) async fn refused(redlock: &Redlock, name: &str) -> Votes {
    match in_time(async { redlock.lock(name).await }).await {
        Err(LockError::NoQuorum { votes }) => votes,
        other => panic!("expected NoQuorum, got {other:?}"),
    }
}

/// Why a vote did not count; panics if it did.
#[track_caller]
pub(crate) fn reason(votes: &Votes, node: usize) -> Reason {
    match &votes[node].outcome {
        VoteOutcome::NotCounted(reason) => reason.clone(),
        other => panic!("{} has {other:?}", votes[node].node),
    }
}

/// `act` makes node `node` forget: it is found out soon, and votes again after a full probation.
pub(crate) async fn forgets(redlock: &Redlock, node: usize, act: impl FnOnce()) {
    let started = Instant::now();
    act();
    let acted = Instant::now();
    probation(redlock, &[node]).await;
    // Health checks run every second.
    assert!(acted.elapsed() < Duration::from_secs(3), "found out after {:?}", acted.elapsed());
    votes(redlock, node).await;
    assert!(started.elapsed() > MAX_TTL, "it votes after {:?}", started.elapsed());
}

/// What a server keeps of its enrolment.
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

/// What of a tag stays the same from an enrolment until the next.
pub(crate) fn enrolment(server: &RedisServer) -> String {
    tag(server)[1..77].to_owned()
}

pub(crate) fn tag(server: &RedisServer) -> String {
    server
        .cli(&["HGET", "redlock:meta", "tag"])
        .bytes()
        .map_or(String::new(), |tag| String::from_utf8(tag).expect("a tag is ASCII"))
}

/// The fences of all stripes that have one.
pub(crate) fn fences(server: &RedisServer) -> BTreeMap<String, u64> {
    let is_stripe = |field: &str| field.strip_prefix('f').is_some_and(|n| n.parse::<u16>().is_ok());
    let fields = meta(server).into_iter().filter(|(field, _)| is_stripe(field));
    let numbers = fields.map(|(field, value)| (field, value.parse().expect("a number")));
    numbers.filter(|(_, fence)| *fence > 0).collect()
}

/// A wall clock that is an hour slow: it proposes tokens that are below all others'.
pub(crate) fn slow() -> HandClock {
    HandClock::skewed(-3_600_000)
}

/// Takes the lock, however often a probation or somebody else is in the way.
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

/// Takes a lock and gives it back.
pub(crate) async fn works(redlock: &Redlock) {
    let released = taken(redlock, "works").await.release().await;
    released.unwrap_or_else(|error| panic!("no release: {error}"));
}
