//! Many clients at once, and clients that are killed while they enrol.

use std::collections::BTreeSet;

use tower_redlock::Redlock;

use crate::fixture::{
    LONG, Log, LoggedSpawner, RedisServer, all_vote,
    child::{TestProcess, orders},
    eventually_async,
    guard::{enrolment, guarded, manager, meta, probation, quick, tag, works},
    in_time, urls,
};

const CLIENTS: usize = 10;

#[tokio::test]
async fn many_clients_activate_each_node_once() {
    let mut servers = RedisServer::start_n(3);
    let log = Log::new();
    let client =
        || guarded(quick(), urls(&servers)).spawner(LoggedSpawner::start(&log)).build().unwrap();
    let clients: Vec<Redlock> = (0..CLIENTS).map(|_| client()).collect();
    for client in &clients {
        all_vote(client).await;
    }
    let activations = |node: &str| {
        let is = |line: &&str| line.contains("probation ended") && line.contains(node);
        log.text().lines().filter(is).count()
    };
    let nodes = ["node=node-1", "node=node-2", "node=node-3"];
    assert_eq!(nodes.map(activations), [1, 1, 1]);
    let tags: BTreeSet<String> = servers.iter().map(|server| tag(server)[..2].to_owned()).collect();
    assert_eq!(tags, BTreeSet::from(["a ".to_owned()]));
    let descriptions: BTreeSet<String> =
        servers.iter().map(|server| meta(server)["layout"].clone()).collect();
    assert_eq!(descriptions.len(), 1, "{descriptions:?}");
    tokens_are_unique_and_grow(&clients).await;
    // The same for one node that restarts blank.
    servers[1].restart();
    for client in &clients {
        probation(client, &[1]).await;
    }
    for client in &clients {
        all_vote(client).await;
    }
    assert_eq!(nodes.map(activations), [1, 2, 1]);
    tokens_are_unique_and_grow(&clients).await;
}

async fn tokens_are_unique_and_grow(clients: &[Redlock]) {
    let order = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let work = clients.iter().map(|client| {
        let (client, order) = (client.clone(), order.clone());
        tokio::spawn(async move {
            for _ in 0..3 {
                let lock = client.lock("x").wait(LONG).await.unwrap();
                order.lock().unwrap().push(lock.fencing_token());
                // Its answers may come too late on a busy machine; the client repeats it.
                let _ = lock.release().await;
            }
        })
    });
    for task in work.collect::<Vec<_>>() {
        in_time(task).await.unwrap();
    }
    let order = order.lock().unwrap();
    assert_eq!(order.len(), clients.len() * 3);
    assert!(order.windows(2).all(|pair| pair[0] < pair[1]), "{order:?}");
}

/// Enrols the servers of its argument, and waits to be killed.
#[tokio::test]
async fn enroller() {
    let Some(orders) = orders() else { return };
    let _redlock = guarded(quick(), orders.split(' ')).build().unwrap();
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn killed_client_leaves_nothing_stuck() {
    let servers = RedisServer::start_n(3);
    let child = TestProcess::start(module_path!(), "enroller", &urls(&servers).join(" "));
    eventually_async("every server is enrolled", async || {
        servers.iter().all(|server| tag(server).starts_with("p "))
    })
    .await;
    drop(child);
    let begun: Vec<_> = servers.iter().map(enrolment).collect();
    let redlock = manager(&servers);
    all_vote(&redlock).await;
    for (server, begun) in servers.iter().zip(begun) {
        assert_eq!(enrolment(server), begun);
    }
    works(&redlock).await;
}
