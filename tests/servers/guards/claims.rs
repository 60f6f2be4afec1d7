//! Claims of ticks on servers that forget them or were replaced.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tower_redlock::{
    Redlock,
    error::Reason,
    node::{Answer, ClaimsAnswer, Op, PromisedAnswer, TickClaim},
};

use crate::fixture::{
    RedisServer, all_vote, eventually_async,
    guard::{guarded, hash, probation, quick, settled, votes},
    in_time,
    jobs::{CLAIMED, Response, SUPERSEDED, ask, claim, claims, of_tick, prepare},
    urls,
};

const MARKS: &str = "redlock:marks";

async fn send(redlock: &Redlock, node: usize, op: Op) -> Response {
    in_time(ask(&redlock.nodes()[node], op)).await
}

/// The claim that a node returns with its promise.
async fn promise(redlock: &Redlock, node: usize, token: u64) -> Option<TickClaim> {
    match send(redlock, node, prepare("job", token)).await {
        Ok(Answer::Promised(PromisedAnswer { claim, .. })) => claim.map(|claim| *claim),
        other => panic!("no promise: {other:?}"),
    }
}

async fn kept(redlock: &Redlock, node: usize) -> Option<TickClaim> {
    match send(redlock, node, claims(["job"])).await {
        Ok(Answer::Claims(ClaimsAnswer { mut claims, .. })) => {
            claims.pop().expect("one answer for one job")
        }
        other => panic!("no claims: {other:?}"),
    }
}

fn each_question() -> [Op; 3] {
    [prepare("job", 99), claim("job", &of_tick(99, 900)), claims(["job"])]
}

#[tokio::test]
async fn blank_node_learns_promises_and_claims() {
    let mut servers = RedisServer::start_n(3);
    let redlock = settled(&servers).await;
    let (old, new) = (of_tick(9, 300), of_tick(10, 200));
    assert_eq!(send(&redlock, 2, claim("job", &old)).await, CLAIMED);
    for node in [0, 1] {
        assert_eq!(promise(&redlock, node, 10).await, None);
        assert_eq!(send(&redlock, node, claim("job", &new)).await, CLAIMED);
    }
    // A promise without a claim.
    assert_eq!(promise(&redlock, 2, 20).await.as_ref(), Some(&old));
    servers[1].restart();
    probation(&redlock, &[1]).await;
    for op in each_question() {
        let response = send(&redlock, 1, op).await;
        assert!(matches!(response, Err(Reason::Probation { .. })), "{response:?}");
    }
    assert!(hash(&servers[1], MARKS).is_empty());
    votes(&redlock, 1).await;
    assert_eq!(kept(&redlock, 1).await.as_ref(), Some(&new), "10 is more than 9, as a number");
    assert_eq!(send(&redlock, 1, prepare("job", 19)).await, SUPERSEDED);
    assert_eq!(send(&redlock, 1, claim("job", &of_tick(19, 400))).await, SUPERSEDED);
    assert_eq!(promise(&redlock, 1, 20).await.as_ref(), Some(&new));
    // The others are unchanged.
    assert_eq!(kept(&redlock, 2).await.as_ref(), Some(&old));
    assert_eq!(promise(&redlock, 0, 11).await.as_ref(), Some(&new));
}

/// The servers report that they do not know which ticks were started.
#[tokio::test]
async fn majority_that_forgot_reports_since_when() {
    let mut servers = RedisServer::start_n(3);
    let redlock = settled(&servers).await;
    for node in 0..3 {
        assert_eq!(send(&redlock, node, claim("job", &of_tick(5, 100))).await, CLAIMED);
    }
    let before = floor(&send(&redlock, 0, prepare("job", 6)).await);
    let forgot = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    servers[0].restart();
    servers[1].restart();
    probation(&redlock, &[0, 1]).await;
    all_vote(&redlock).await;
    for (node, op) in [(0, prepare("job", 7)), (1, claims(["job"]))] {
        let floor = floor(&send(&redlock, node, op).await);
        assert!(floor > before, "a new set has a floor too, and this one is later");
        let assumed_run = TickClaim::assumed_run_before(floor);
        assert!(assumed_run >= forgot.saturating_sub(Duration::from_millis(1)), "{assumed_run:?}");
    }
}

#[tokio::test]
async fn other_tag_gives_no_answer() {
    let servers = RedisServer::start_n(3);
    let redlock = settled(&servers).await;

    for (node, op) in each_question().into_iter().enumerate() {
        // No health check has run yet.
        servers[node].cli(&["HSET", "redlock:meta", "tag", "a 0 0"]);
        let response = send(&redlock, node, op).await;
        let refused = matches!(response, Err(Reason::WrongTag { .. } | Reason::OtherLayout { .. }));
        assert!(refused, "{response:?}");
        assert!(hash(&servers[node], MARKS).is_empty());
    }
}

#[tokio::test]
async fn other_set_gives_no_answer() {
    let servers = RedisServer::start_n(3);
    let _redlock = settled(&servers).await;
    let other = guarded(quick(), urls(&servers[..1])).build().unwrap();
    crate::fixture::guard::refusal(&other, 0).await;
    for op in each_question() {
        let response = send(&other, 0, op).await;
        assert!(matches!(response, Err(Reason::OtherLayout { .. })), "{response:?}");
    }
    assert!(hash(&servers[0], MARKS).is_empty());
}

/// A replica copies the claims of its master, which would count twice.
#[tokio::test]
async fn replica_of_node_gives_no_answer() {
    let servers = Arc::new(RedisServer::start_n(3));
    let redlock = settled(&servers).await;
    assert_eq!(send(&redlock, 0, claim("job", &of_tick(5, 100))).await, CLAIMED);
    let both = Arc::clone(&servers);
    let joined = tokio::task::spawn_blocking(move || both[1].replica_of(&both[0]));
    eventually_async("the replica does not vote", async || {
        let response = send(&redlock, 1, claims(["job"])).await;
        let own = Ok(Answer::Claims(ClaimsAnswer::new(floor(&response), vec![None])));
        assert!(response.is_err() || response == own, "{response:?}");
        joined.is_finished() && !redlock.health()[1].is_voting()
    })
    .await;
    for op in each_question() {
        let response = send(&redlock, 1, op).await;
        assert!(response.is_err(), "{response:?}");
    }
    assert_eq!(hash(&servers[1], MARKS).len(), 2, "the claims of its master");
    assert_eq!(hash(&servers[0], MARKS).len(), 2, "the master stores nothing more");
}

fn floor(response: &Response) -> u64 {
    match response {
        Ok(
            Answer::Promised(PromisedAnswer { floor, .. })
            | Answer::Claims(ClaimsAnswer { floor, .. }),
        ) => *floor,
        _ => 0,
    }
}
