//! Masters and replicas.

use crate::support::{Proxy, RedisServer, Resp};

fn is_read_only(server: &RedisServer) -> bool {
    matches!(server.cli(&["SET", "probe", "1"]), Resp::Error(said) if said.starts_with("READONLY"))
}

#[test]
fn replica_mirrors_its_master_until_promoted() {
    let (mut master, replica) = (RedisServer::start(), RedisServer::start());
    replica.set("own", "1");
    master.set("before", "1");
    replica.replica_of(&master);
    assert_eq!(replica.keys("*"), ["before"]);
    assert!(is_read_only(&replica));

    master.set("after", "1");
    replica.catch_up_with(&master);
    assert_eq!(replica.keys("*"), ["after", "before"]);

    master.kill();
    replica.promote();
    assert!(!is_read_only(&replica));
    assert_eq!(replica.keys("*"), ["after", "before", "probe"]);
}

#[test]
fn stalled_replica_misses_last_writes() {
    let (mut master, replica) = (RedisServer::start(), RedisServer::start());
    let proxy = Proxy::start(master.addr());
    replica.replica_through(&proxy, &master);
    master.set("seen", "1");
    replica.catch_up_with(&master);
    proxy.stall();
    master.set("missed", "1");
    master.kill();

    replica.promote();

    assert_eq!(replica.keys("*"), ["seen"]);
}

#[test]
fn replica_has_its_masters_password() {
    let master = RedisServer::with(&["--requirepass", "s3cret"]);
    let replica = RedisServer::start();
    master.set("a", "1");
    replica.replica_of(&master);
    assert!(replica.exists("a"));
}

#[test]
fn server_may_follow_one_after_other() {
    let servers = RedisServer::start_n(3);
    for master in &servers[1..] {
        master.set(&format!("of:{}", master.port()), "1");
        servers[0].replica_of(master);
        assert_eq!(servers[0].keys("*"), [format!("of:{}", master.port())]);
    }
}
