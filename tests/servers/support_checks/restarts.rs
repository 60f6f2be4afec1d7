//! Restarts with and without data.

use crate::support::RedisServer;

#[test]
fn restart_discards_data_on_disk() {
    let mut server = RedisServer::with(&["--appendonly", "yes"]);
    server.set("a", "1");
    server.save_snapshot();
    let port = server.port();
    server.restart();
    assert_eq!(server.keys("*"), Vec::<String>::new());
    assert_eq!(server.port(), port);
}

#[test]
fn append_only_file_keeps_all_answered() {
    let mut server = RedisServer::with(&["--appendonly", "yes"]);
    for round in 0..3 {
        server.set(&format!("key:{round}"), "1");
        let pid = server.pid();
        server.restart_keeping_data();
        assert_ne!(server.pid(), pid);
        assert_eq!(server.keys("*").len(), round + 1);
    }
}

#[test]
fn server_without_aof_keeps_snapshots() {
    let mut server = RedisServer::start();
    server.set("saved", "1");
    server.save_snapshot();
    server.set("later", "1");
    server.restart_keeping_data();
    assert_eq!(server.keys("*"), ["saved"]);
}

#[test]
fn snapshot_brings_back_earlier_state() {
    let mut server = RedisServer::start();
    server.set("fence", "7");
    let snapshot = server.save_snapshot();
    server.set("fence", "9");
    server.save_snapshot();
    server.restart_from(&snapshot);
    assert_eq!(server.get("fence").as_deref(), Some(&b"7"[..]));

    let mut other = RedisServer::start();
    other.set("own", "1");
    other.restart_from(&snapshot);
    assert_eq!(other.keys("*"), ["fence"]);
}

#[test]
fn a_frozen_server_is_restarted_too() {
    let mut server = RedisServer::start();
    server.set("a", "1");
    server.freeze();
    server.restart();
    assert!(!server.exists("a"));
}

#[test]
#[should_panic(expected = "would ignore the snapshot")]
fn snapshot_needs_a_loading_server() {
    let mut server = RedisServer::with(&["--appendonly", "yes"]);
    let snapshot = server.save_snapshot();
    server.restart_from(&snapshot);
}
