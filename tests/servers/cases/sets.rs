//! Several sets of servers, and clients that disagree about them.

use std::time::Duration;

use futures_util::future::join_all;
use tower_redlock::{Redlock, RedlockBuilder, lock::NotReady, node::redis::RestartGuard};

use crate::fixture::{RedisServer, over, patient};

const LIMIT: Duration = Duration::from_secs(3);

fn builder(servers: &[RedisServer], guard: RestartGuard) -> RedlockBuilder {
    over(patient().restart_guard(guard), servers.iter().map(RedisServer::url))
}

fn manager(sets: &[&[RedisServer]], guard: RestartGuard) -> Redlock {
    Redlock::sharded(sets.iter().map(|servers| builder(servers, guard))).unwrap()
}

/// A client that would look for a name in another set gets no lock at all.
#[tokio::test]
async fn clients_with_other_lists_of_sets_are_refused() {
    for guard in [RestartGuard::Probation, RestartGuard::Off] {
        let servers = RedisServer::start_n(6);
        let (a, b) = servers.split_at(3);
        let first = manager(&[a, b], guard);
        first.ready().await.unwrap();
        let _held = first.lock("n0").await.unwrap();
        let is_refused = async |(what, other): (&str, Redlock)| {
            let refused: NotReady = other.ready_within(LIMIT).await.expect_err(what);
            assert!(refused.to_string().contains("belongs to another set"), "{what}: {refused}");
            assert!(refused.to_string().contains("set 1 of 2"), "{what}: {refused}");
            for i in 0..20 {
                assert!(other.lock(format!("n{i}")).await.is_err(), "{what}: n{i}");
            }
        };
        let others = [
            ("the other order", manager(&[b, a], guard)),
            ("one set of them", manager(&[a], guard)),
            ("no sets", builder(a, guard).build().unwrap()),
        ];
        join_all(others.map(is_refused)).await;
        assert!(first.lock("n1").await.is_ok());
    }
}

/// A set of the new list has servers that no client has used.
#[tokio::test]
async fn longer_list_gets_no_lock_beside_the_shorter_one() {
    let servers = RedisServer::start_n(9);
    let sets: Vec<_> = servers.chunks(3).collect();
    let short = manager(&sets[..2], RestartGuard::Probation);
    short.ready().await.unwrap();

    let long = manager(&sets, RestartGuard::Probation);
    let refused = long.ready_within(LIMIT).await.expect_err("two sets belong to the other list");
    let mut granted = Vec::new();
    for i in 0..20 {
        granted.extend(long.lock(format!("n{i}")).await.ok());
    }

    assert!(granted.is_empty(), "{} of 20 names are granted twice", granted.len());
    assert!(refused.to_string().contains("set 1 of 2"), "{refused}");
    assert!(short.lock("n1").await.is_ok());
}
