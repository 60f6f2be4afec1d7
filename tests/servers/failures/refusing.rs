//! Servers that are up and refuse commands.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tower_redlock::{
    error::Reason,
    node::{NodeState, Role},
};

use crate::fixture::{
    FakeServer, Reaction, RedisServer, Resp, all_vote, eventually, eventually_async, fake,
    faults::{
        assert_refused, manager, only_a_majority_matters, only_a_majority_of_these_matters,
        settled, works,
    },
    urls,
};

#[tokio::test]
async fn replica_cannot_vote() {
    for master_has_voted in [false, true] {
        let master = RedisServer::start();
        if master_has_voted {
            works(&manager([master.url()])).await;
        }
        let replicas = [replica_of(&master), replica_of(&master)];
        let urls = replicas.each_ref().map(RedisServer::url);
        only_a_majority_matters(urls, manager, |reason| *reason == Reason::ReadOnly).await;
    }
}

#[tokio::test]
async fn replica_votes_again_when_promoted() {
    let (master, server) = (RedisServer::start(), RedisServer::start());
    let redlock = manager([server.url()]);
    works(&redlock).await;
    server.replica_of(&master);
    eventually_async("the server does not vote", async || !redlock.health()[0].is_voting()).await;
    assert_eq!(redlock.health()[0].role(), Some(Role::Replica));
    assert_refused(&redlock, &[0], |reason| *reason == Reason::ReadOnly).await;
    server.promote();
    all_vote(&redlock).await;
    works(&redlock).await;
}

pub(crate) fn replica_of(master: &RedisServer) -> RedisServer {
    let server = RedisServer::start();
    server.replica_of(master);
    server
}

#[tokio::test]
async fn loading_and_busy_servers_report_it() {
    let loading = || fake::erring("LOADING Redis is loading the dataset in memory");
    only_a_majority_of_these_matters(loading, |reason| *reason == Reason::Loading).await;
    let busy = || fake::greeting(|_| Reaction::error("BUSY Redis is busy running a script"));
    only_a_majority_of_these_matters(busy, |reason| *reason == Reason::Busy).await;
}

#[tokio::test]
async fn server_that_cannot_persist_reports_it() {
    let servers = RedisServer::start_n(2);
    for server in &servers {
        break_persistence(server);
    }
    let [first, second] = urls(&servers).try_into().expect("two servers");
    let fails = |reason: &Reason| *reason == Reason::PersistenceFailing;
    only_a_majority_matters([first, second], manager, fails).await;
}

#[tokio::test]
async fn failing_persistence_is_reported() {
    let server = RedisServer::start();
    let redlock = manager([server.url()]);
    works(&redlock).await;
    break_persistence(&server);
    assert_refused(&redlock, &[0], |reason| *reason == Reason::PersistenceFailing).await;
    server.set_config("save", "");
    works(&redlock).await;
}

/// Deletes the server's directory and makes a snapshot fail.
fn break_persistence(server: &RedisServer) {
    server.set_config("save", "3600 1000000");
    fs::remove_dir_all(server.config("dir")).expect("the server's directory is ours");
    server.cli(&["BGSAVE"]);
    eventually("the snapshot fails", || {
        server.info("persistence", "rdb_last_bgsave_status").as_deref() == Some("err")
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_script_makes_server_busy() {
    let servers = RedisServer::start_n(3);
    let redlock = manager(urls(&servers));
    all_vote(&redlock).await;
    thread::scope(|scope| {
        let hogs = servers[..2].iter().map(|server| scope.spawn(|| hog(server)));
        let hogs: Vec<_> = hogs.collect();
        for server in &servers[..2] {
            eventually(
                "the server is busy",
                || matches!(server.cli(&["PING"]), Resp::Error(text) if text.starts_with("BUSY")),
            );
        }
        let runtime = tokio::runtime::Handle::current();
        tokio::task::block_in_place(|| {
            runtime.block_on(eventually_async("both nodes report busy", async || {
                let votes = crate::fixture::faults::refused(&redlock).await;
                votes[..2].iter().all(|vote| vote.to_string().contains("busy: "))
            }));
        });
        for server in &servers[..2] {
            assert_eq!(server.cli(&["SCRIPT", "KILL"]), Resp::Simple("OK".into()));
        }
        for hog in hogs {
            hog.join().expect("the script was killed");
        }
    });
    all_vote(&redlock).await;
    works(&redlock).await;
}

fn hog(server: &RedisServer) {
    server.set_config("lua-time-limit", "10");
    let response = server.cli(&["EVAL", "while true do end", "0"]);
    assert!(matches!(response, Resp::Error(_)), "{response:?}");
}

/// The remaining life of its key is unknown.
#[tokio::test]
async fn grant_without_time_does_not_count() {
    let greeter = fake::Greeter::new();
    let has_acquired = AtomicBool::new(false);
    let server = FakeServer::start(move |command| match greeter.greet(command) {
        Some(_) if command[0] == b"TIME" && has_acquired.swap(false, Ordering::SeqCst) => {
            Reaction::error("BUSY Redis is busy running a script")
        }
        Some(reaction) => reaction,
        None => {
            has_acquired.store(fake::votes(command), Ordering::SeqCst);
            fake::granted(command)
        }
    });
    let redlock = manager([server.url()]);

    all_vote(&redlock).await;

    assert_refused(&redlock, &[0], |reason| *reason == Reason::Busy).await;
}

#[tokio::test]
async fn old_server_does_not_vote() {
    let is_too_old = |reason: &Reason| {
        let text = reason.to_string();
        text.contains("version 5.0.1 is too old") && text.contains("6.2 or newer")
    };
    only_a_majority_of_these_matters(old_server, is_too_old).await;
    let server = old_server();
    let redlock = manager([server.url()]);
    settled(&redlock).await;
    assert!(matches!(redlock.health()[0].state, NodeState::Down { .. }));
    assert_eq!(server.count("EVALSHA"), 0);
}

pub(crate) fn old_server() -> FakeServer {
    let greeter = fake::Greeter::new();
    FakeServer::start(move |command| match greeter.greet(command) {
        Some(_) if command[0] == b"INFO" => Reaction::bulk("redis_version:5.0.1\r\n"),
        Some(reaction) => reaction,
        None => Reaction::int(0),
    })
}
