//! A lower `max_ttl` on the servers of all sets.

use std::time::{Duration, Instant};

use tower_redlock::{
    Redlock, RedlockBuilder,
    error::{LowerError, VoteOutcome},
    node::{EmbeddedNodes, redis::RestartGuard},
};

use crate::fixture::{
    RedisServer, all_vote,
    guard::{MAX_TTL, meta, quick},
    in_time,
    mock_node::{MockNode, with_nodes},
    over,
    sets::Sets,
    urls,
};

const LONGER: Duration = Duration::from_millis(2500);

fn build(sets: &Sets, builder: impl Fn() -> RedlockBuilder) -> Redlock {
    let set = |servers: &Vec<RedisServer>| {
        over(builder(), urls(servers)).restart_guard(RestartGuard::Probation)
    };
    Redlock::sharded(sets.servers.iter().map(set)).unwrap()
}

fn stored(servers: &[RedisServer], field: &str) -> Vec<String> {
    servers.iter().map(|server| meta(server).remove(field).unwrap_or_default()).collect()
}

/// Sets that were used with longer TTLs, and a client with shorter ones.
async fn used_with_longer() -> (Sets, Redlock) {
    let sets = Sets::start();
    let long = build(&sets, || quick().max_ttl(LONGER));
    all_vote(&long).await;
    drop(long);
    let short = build(&sets, quick);
    all_vote(&short).await;
    assert!(sets.servers.iter().all(|servers| stored(servers, "max_ttl") == ["2500"; 3]));
    (sets, short)
}

#[tokio::test]
async fn all_sets_are_lowered_at_the_same_time() {
    let (sets, short) = used_with_longer().await;
    let begun = Instant::now();

    in_time(short.lower_max_ttl()).await.unwrap();

    assert!(begun.elapsed() > LONGER, "{:?}", begun.elapsed());
    assert!(begun.elapsed() < 2 * LONGER, "one after the other: {:?}", begun.elapsed());
    for servers in &sets.servers {
        assert_eq!(stored(servers, "max_ttl"), ["1000"; 3]);
        assert_eq!(stored(servers, "longer"), [""; 3]);
    }
}

#[tokio::test]
async fn other_sets_are_lowered_beside_a_dead_one() {
    for down in [0, 1] {
        let (mut sets, short) = used_with_longer().await;
        sets.take_down(down, &[&short]).await;
        let begun = Instant::now();
        let error = in_time(short.lower_max_ttl()).await.unwrap_err();
        assert!(begun.elapsed() > LONGER, "locks with longer TTLs have expired");
        let up = &sets.servers[1 - down];
        assert_eq!(stored(up, "max_ttl"), ["1000"; 3]);
        assert_eq!(stored(up, "longer"), [""; 3], "probations use the lower value");
        let LowerError::IncompleteSets { votes } = &error else { panic!("{error:?}") };
        let lowered = |set: usize| {
            votes[set].iter().filter(|vote| vote.outcome == VoteOutcome::Granted).count()
        };
        assert_eq!((votes.len(), lowered(down), lowered(1 - down)), (2, 0, 3), "{error}");
        let text = error.to_string();
        let (dead, alive) = (down + 1, 2 - down);
        assert!(text.contains(&format!("(set {dead} of 2: node-1: ")), "{text}");
        assert!(text.contains(&format!("set {alive} of 2 is lowered")), "{text}");
        assert!(text.contains("run it again"), "{text}");
        sets.servers[down].iter_mut().for_each(RedisServer::restart);
        all_vote(&short).await;
        in_time(short.lower_max_ttl()).await.unwrap();
        assert!(sets.servers.iter().all(|servers| stored(servers, "max_ttl") == ["1000"; 3]));
        assert_eq!(short.sets()[down].health()[0].max_ttl, Some(MAX_TTL));
    }
}

#[tokio::test]
async fn set_without_servers_leaves_the_others_as_they_are() {
    let sets = Sets::start();
    let own = EmbeddedNodes::new(3);
    let with_own_nodes = |builder: fn() -> RedlockBuilder| {
        let servers = over(builder(), urls(&sets.servers[0]));
        let both =
            [servers, with_nodes(builder(), own.nodes("").map(|node| MockNode::forwarding(&node)))];
        Redlock::sharded(both.map(|set| set.restart_guard(RestartGuard::Probation))).unwrap()
    };
    let long = with_own_nodes(|| quick().max_ttl(LONGER));
    all_vote(&long).await;
    drop(long);
    let short = with_own_nodes(quick);
    all_vote(&short).await;
    let error = in_time(short.lower_max_ttl()).await.unwrap_err();
    assert!(matches!(error, LowerError::NoServers), "{error:?}");
    assert_eq!(stored(&sets.servers[0], "max_ttl"), ["2500"; 3]);
}
