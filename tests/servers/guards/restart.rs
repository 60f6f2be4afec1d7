//! A server that restarts blank while a lock is held, and another one that did not grant it.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tower_redlock::{
    Lock, LockError, Redlock, RedlockBuilder,
    error::{Reason, VoteOutcome},
    node::{NodeState, redis::RestartGuard},
};

use crate::fixture::{
    Fixture, LONG, Proxy, RedisServer, all_vote,
    guard::{
        MAX_TTL, fences, guarded, probation, quick, reason, refused, settled, slow, taken, votes,
        works,
    },
    in_time, over,
};

/// A client that does not reach node 3, and one that reaches all nodes.
struct TwoClients {
    servers: Vec<RedisServer>,
    _proxies: Vec<Proxy>,
    first: Redlock,
    second: Redlock,
}

impl TwoClients {
    async fn new(builder: impl Fn() -> RedlockBuilder, guard: RestartGuard) -> Self {
        let Fixture { servers, proxies } = Fixture::new(3);
        let build = |urls: Vec<String>| {
            over(builder(), urls).restart_guard(guard).build().expect("valid settings")
        };
        let first = build(proxies.iter().map(Proxy::url).collect());
        let second = build(servers.iter().map(RedisServer::url).collect());
        all_vote(&first).await;
        all_vote(&second).await;
        proxies[2].cut();
        Self { servers, _proxies: proxies, first, second }
    }

    /// The first client holds "x" on the nodes 1 and 2, and does not renew it; then node 2 forgets.
    async fn held_and_forgotten(&mut self) -> Lock {
        let lock = in_time(async { self.first.lock("x").auto_extend(false).await }).await.unwrap();
        let keys: Vec<_> =
            self.servers.iter().map(|server| server.exists("redlock:lock:x")).collect();
        assert_eq!(keys, [true, true, false]);
        self.servers[1].restart();
        lock
    }
}

#[tokio::test]
async fn server_that_forgot_grants_nothing() {
    let ttl = Duration::from_secs(2);
    let mut two = TwoClients::new(|| quick().ttl(ttl), RestartGuard::Probation).await;
    let held = two.held_and_forgotten().await;
    assert!(held.is_valid(), "the restart took too long for this test");
    let next = taken(&two.second, "x").await;
    assert!(!held.is_valid(), "two clients hold the lock");
    assert!(next.fencing_token() > held.fencing_token());
}

#[tokio::test]
async fn unguarded_server_grants_held_lock() {
    let mut two = TwoClients::new(|| quick().ttl(LONG), RestartGuard::Off).await;
    let held = two.held_and_forgotten().await;
    let next = taken(&two.second, "x").await;
    assert!(held.is_valid() && next.is_valid(), "the control without the guard has two holders");
}

#[tokio::test]
async fn blank_server_waits_out_probation() {
    let mut servers = RedisServer::start_n(3);
    let redlock = settled(&servers).await;
    servers[2].kill();
    let started = Instant::now();
    servers[1].restart();
    probation(&redlock, &[1]).await;
    let NodeState::Probation { remaining, .. } = redlock.health()[1].state else {
        panic!("not in probation: {:?}", redlock.health()[1])
    };
    assert!(remaining <= MAX_TTL.mul_f64(1.01) + Duration::from_millis(2), "{remaining:?}");
    let verdict = refused(&redlock, "x").await;
    let granted = [VoteOutcome::Granted, VoteOutcome::NotCounted(Reason::NotAwaited)];
    assert!(granted.contains(&verdict[0].outcome), "{verdict}");
    assert!(matches!(reason(&verdict, 1), Reason::Probation { .. }), "{verdict}");
    assert!(
        matches!(reason(&verdict, 2), Reason::NotConnected(_) | Reason::Disconnected),
        "{verdict}"
    );
    // One other node is too few to learn from, and the former owner of its name may still serve
    // other clients, so the set waits for the third node. That node forgot as well, and so a quorum
    // did: the nodes start above all tokens that may have been granted.
    let still = in_time(async { redlock.lock("x").wait(MAX_TTL * 2).await }).await;
    let Err(still) = still else { panic!("a minority granted") };
    assert!(matches!(still.root(), LockError::NoQuorum { .. }), "{still}");
    servers[2].restart();
    votes(&redlock, 1).await;
    assert!(started.elapsed() > MAX_TTL * 3, "the node votes after {:?}", started.elapsed());
    let lock = taken(&redlock, "x").await;
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros();
    let ahead = u128::from(lock.fencing_token().get()).saturating_sub(wall);
    assert!(ahead > 50_000_000, "the token is {ahead} µs ahead of the clock");
    all_vote(&redlock).await;
    works(&redlock).await;
}

#[tokio::test]
async fn blank_server_learns_fences_first() {
    let mut two = TwoClients::new(quick, RestartGuard::Probation).await;
    let mut last = 0;
    for name in ["a", "b", "x", "x", "x"] {
        let lock = taken(&two.first, name).await;
        last = lock.fencing_token().get();
        lock.release().await.unwrap();
    }
    two.servers[1].restart();
    probation(&two.second, &[1]).await;
    assert!(fences(&two.servers[1]).is_empty());
    votes(&two.second, 1).await;
    let [first, learnt, third] = [0, 1, 2].map(|node| fences(&two.servers[node]));
    let is_learnt = |(stripe, fence): (&String, &u64)| *fence == first[stripe].max(third[stripe]);
    assert!(learnt.len() == 1_024 && learnt.iter().all(is_learnt));
    // Only node 3 and the one that forgot are left, and no client proposes tokens by the clock.
    two.servers[0].kill();
    let slow = guarded(quick().clock(slow()), two.servers.iter().map(RedisServer::url));
    let slow = slow.build().unwrap();
    let lock = taken(&slow, "x").await;
    assert!(lock.fencing_token().get() > last, "{} after {last}", lock.fencing_token().get());
}
