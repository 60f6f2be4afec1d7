//! Servers with a memory limit.

use crate::support::{RedisServer, Resp};

fn limited(policy: &str) -> RedisServer {
    let server = RedisServer::start();
    server.set_config("maxmemory", "6mb");
    server.set_config("maxmemory-policy", policy);
    assert_eq!(server.config("maxmemory"), (6 * 1024 * 1024).to_string());
    assert_eq!(server.config("maxmemory-policy"), policy);
    server
}

fn set_with_ttl(server: &RedisServer, key: &str) {
    server.cli(&["SET", key, "1", "PX", "600000"]);
    assert!(server.exists(key));
}

#[test]
fn full_server_has_no_room() {
    let server = limited("noeviction");
    server.set("a", "1");
    server.fill_memory();

    for _ in 0..100 {
        let said = server.cli(&["SET", "b", "1"]);
        assert!(matches!(&said, Resp::Error(said) if said.starts_with("OOM")), "{said:?}");
    }

    assert!(server.exists("a"));

    let fillers = server.keys("filler:*");
    assert!(fillers.len() > 10, "{fillers:?}");

    for filler in fillers {
        server.cli(&["DEL", &filler]);
    }
    server.set("b", "1");
}

#[test]
fn evicting_server_fills_until_it_evicts() {
    let server = limited("allkeys-lru");
    server.fill_memory();
    assert_ne!(server.info("stats", "evicted_keys").as_deref(), Some("0"));
    server.set("b", "1");
}

#[test]
fn expiring_keys_are_evicted_first() {
    let server = limited("volatile-ttl");
    server.set("stays", "1");
    set_with_ttl(&server, "goes");
    server.fill_memory();
    assert!(!server.exists("goes"));
    server.fill_memory();
    assert!(matches!(server.cli(&["SET", "b", "1"]), Resp::Error(_)));
    assert!(server.exists("stays"));
}

#[test]
fn a_certain_key_is_evicted() {
    for policy in ["allkeys-lru", "allkeys-random", "volatile-lru", "volatile-ttl"] {
        let server = limited(policy);
        set_with_ttl(&server, "a");
        server.evict("a");
        assert!(!server.exists("a"));
        assert_ne!(server.info("stats", "evicted_keys").as_deref(), Some("0"), "{policy}");
    }
}

#[test]
#[should_panic(expected = "evicts no a: Err(OutOfMemory)")]
fn a_server_that_refuses_evicts_nothing() {
    let server = limited("noeviction");
    set_with_ttl(&server, "a");
    server.evict("a");
}
