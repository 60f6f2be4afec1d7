//! Operations that the threads of the callers write to idle connections.

use std::{collections::HashMap, sync::Arc};

use tower_redlock::{FencingToken, Redlock};

use crate::fixture::{Fixture, HANG_GUARD, in_time, patient};

/// Acquires and releases names of its own in turn, and one that another task uses too. Returns the tokens by name.
async fn lock_in_turn(redlock: Redlock, task: usize) -> Vec<(String, FencingToken)> {
    let mut tokens = Vec::new();
    for round in 0..200 {
        let name = match round % 8 {
            0 => format!("of two {}", task / 2),
            _ => format!("of {task}, {}", round % 5),
        };
        let lock = redlock.lock(&*name).wait(HANG_GUARD).await.expect("a lock");
        tokens.push((name, lock.fencing_token()));
        if round % 3 == 0 {
            drop(lock);
        } else {
            lock.release().await.expect("an acknowledged release");
        }
    }
    tokens
}

/// Few tasks, so that connections are idle again and again, on more threads than that of the connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn callers_write_side_by_side() {
    let (fixture, redlock) = Fixture::patient().await;

    let tasks: Vec<_> =
        (0..4).map(|task| tokio::spawn(lock_in_turn(redlock.clone(), task))).collect();

    let mut by_name: HashMap<String, Vec<FencingToken>> = HashMap::new();
    for task in tasks {
        for (name, token) in in_time(task).await.expect("a task that ends") {
            by_name.entry(name).or_default().push(token);
        }
    }
    for (name, mut tokens) in by_name {
        let count = tokens.len();
        if name.starts_with("of two") {
            tokens.sort_unstable();
        }
        tokens.dedup();
        assert_eq!(tokens.len(), count, "{name}: each lock has a token of its own");
        assert!(tokens.is_sorted(), "{name}: tokens grow");
    }
    fixture.all_keys_gone().await;
    for server in &fixture.servers {
        let plain = server.calls("set");
        assert!(plain > 500, "each acquire stores a key: {plain}");
    }
}

/// The next operation of a caller is answered although the connection was lent when it broke.
#[tokio::test]
async fn broken_connections_are_lent_again() {
    let fixture = Fixture::new(3);
    let redlock = Arc::new(fixture.direct(patient()).await);
    for _ in 0..5 {
        redlock.lock("a").await.expect("a lock").release().await.expect("a release");
        for server in &fixture.servers {
            server.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
        }
        let lock = redlock.lock("b").wait(HANG_GUARD).await.expect("a lock");
        lock.release().await.expect("a release");
    }
    fixture.all_keys_gone().await;
}
