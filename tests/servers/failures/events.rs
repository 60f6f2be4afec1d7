//! Events about nodes.

use tokio::sync::broadcast::Receiver;
use tower_redlock::{
    error::Reason,
    lock::{LockEvent, LockEventKind},
};

use crate::support::{RedisServer, all_vote, connected, in_time, over, patient, urls};

/// Waits for the next event about a node.
async fn of_node(events: &mut Receiver<LockEvent>, wanted: &str) -> LockEventKind {
    loop {
        let event = in_time(events.recv()).await.expect("the sender is there").kind;
        match &event {
            LockEventKind::NodeOut { node, .. } | LockEventKind::NodeBack { node }
                if &**node == wanted =>
            {
                return event;
            }
            _ => {}
        }
    }
}

#[tokio::test]
async fn outages_and_returns_are_reported() {
    let mut servers = RedisServer::start_n(3);
    let redlock = connected(over(patient(), urls(&servers))).await;
    let mut events = redlock.events();
    servers[1].kill();

    let out = of_node(&mut events, "node-2").await;

    assert!(matches!(out, LockEventKind::NodeOut { .. }), "{out:?}");

    servers[1].restart();
    while !matches!(of_node(&mut events, "node-2").await, LockEventKind::NodeBack { .. }) {}
    all_vote(&redlock).await;
    servers[2].replica_of(&servers[0]);
    let refuses = |event: &LockEventKind| {
        matches!(event, LockEventKind::NodeOut { reason: Reason::ReadOnly, .. })
    };
    while !refuses(&of_node(&mut events, "node-3").await) {
        let _ = redlock.lock("a").await;
    }
}
