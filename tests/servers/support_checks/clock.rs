//! Servers with clocks of their own.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::support::{Feature, RedisServer, has};

/// Microseconds are cut off, and Valkey 9 counts up to a millisecond by its monotonic clock.
const GRAIN: f64 = 0.002;

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64()
}

#[track_caller]
fn assert_off_by(server: &RedisServer, offset: f64) {
    let (earliest, time, latest) = (now() + offset, server.time(), now() + offset);
    assert!(earliest - GRAIN <= time && time <= latest + GRAIN, "{earliest} {time} {latest}");
}

#[test]
fn the_clock_jumps_forward_and_back() {
    if !has(&[Feature::Clock]) {
        return;
    }
    let server = RedisServer::with_clock(&[]);

    assert_off_by(&server, 0.0);

    for offset in [31.0, 600.0, -300.0, 0.25, -0.5, 0.0] {
        server.set_clock_offset(offset);
        assert_off_by(&server, offset);
    }
}

#[test]
fn each_server_has_its_own_clock() {
    if !has(&[Feature::Clock]) {
        return;
    }
    let servers = [RedisServer::with_clock(&[]), RedisServer::with_clock(&[])];
    servers[0].set_clock_offset(120.0);
    assert_off_by(&servers[0], 120.0);
    assert_off_by(&servers[1], 0.0);
}

#[test]
fn keys_live_by_the_clock() {
    if !has(&[Feature::Clock]) {
        return;
    }
    let server = RedisServer::with_clock(&[]);
    server.cli(&["SET", "short", "x", "PX", "60000"]);
    server.cli(&["SET", "long", "x", "PX", "600000"]);

    server.set_clock_offset(120.0);

    assert!(!server.exists("short"));
    assert!(server.pttl("long") <= 480_000);

    server.set_clock_offset(-120.0);
    assert!(server.pttl("long") > 600_000, "the key has a longer TTL than it was given");
}

#[test]
fn restart_keeps_clock_and_arguments() {
    if !has(&[Feature::Clock]) {
        return;
    }
    let mut server = RedisServer::with_clock(&["--appendonly", "yes"]);
    server.set_clock_offset(-90.0);
    server.set("a", "x");

    server.restart_keeping_data();

    assert_off_by(&server, -90.0);
    assert!(server.exists("a"));

    server.restart();
    assert_off_by(&server, -90.0);
    assert!(!server.exists("a"));
}

#[test]
fn replica_has_its_own_clock() {
    if !has(&[Feature::Clock]) {
        return;
    }
    let (master, replica) = (RedisServer::with_clock(&[]), RedisServer::with_clock(&[]));
    master.set_clock_offset(60.0);
    master.set("a", "x");

    replica.replica_of(&master);

    assert!(replica.exists("a"));
    assert_off_by(&master, 60.0);
    assert_off_by(&replica, 0.0);
}

#[test]
fn killed_server_leaves_no_objects() {
    if !has(&[Feature::Clock]) {
        return;
    }
    let mut server = RedisServer::with_clock(&[]);
    let pid = server.pid();
    server.kill();

    for name in [format!("faketime_shm_{pid}"), format!("sem.faketime_sem_{pid}")] {
        let file = Path::new("/dev/shm").join(name);
        assert!(!file.exists(), "{}", file.display());
    }
}

#[test]
#[should_panic(expected = "started with a clock")]
fn server_without_clock_admits_it() {
    RedisServer::start().set_clock_offset(1.0);
}
