//! Servers at their memory limit.

use tower_redlock::{Reason, Released};

use super::scene::{
    a_bad_minority_is_harmless_and_a_bad_majority_is_named, all_vote, assert_refused, manager,
    urls, works,
};
use crate::support::{RedisServer, Resp};

fn is_out_of_memory(reason: &Reason) -> bool {
    *reason == Reason::OutOfMemory
}

fn limit(servers: &[RedisServer], maxmemory: &str) {
    for server in servers {
        let said = server.cli(&["CONFIG", "SET", "maxmemory", maxmemory]);
        assert_eq!(said, Resp::Simple("OK".into()));
    }
}

#[tokio::test]
async fn a_server_that_is_full_from_the_start_says_so() {
    let args = ["--maxmemory", "1", "--maxmemory-policy", "noeviction"];
    let servers = [RedisServer::with(&args), RedisServer::with(&args)];
    let urls = servers.each_ref().map(RedisServer::url);
    a_bad_minority_is_harmless_and_a_bad_majority_is_named(urls, manager, is_out_of_memory).await;
}

#[tokio::test]
async fn a_server_that_was_filled_up_says_so() {
    let args = ["--maxmemory", "3mb", "--maxmemory-policy", "noeviction"];
    let servers = [RedisServer::with(&args), RedisServer::with(&args)];
    for server in &servers {
        let value = "x".repeat(100_000);
        let mut i = 0;
        while server.cli(&["SET", &format!("filler:{i}"), &value]) == Resp::Simple("OK".into()) {
            i += 1;
        }
    }
    // Whatever the clients' buffers give back, the data alone is too much now.
    limit(&servers, "2mb");
    let urls = servers.each_ref().map(RedisServer::url);
    a_bad_minority_is_harmless_and_a_bad_majority_is_named(urls, manager, is_out_of_memory).await;
}

#[tokio::test]
async fn a_lock_is_extended_and_given_back_on_full_servers() {
    let servers = RedisServer::start_n(3);
    let redlock = manager(urls(&servers));
    all_vote(&redlock).await;
    let (one, pair) = (redlock.lock("one").await.unwrap(), redlock.lock(["a", "b"]).await.unwrap());
    limit(&servers[..2], "1");
    assert_refused(&redlock, &[0, 1], is_out_of_memory).await;
    limit(&servers, "1");
    for lock in [&one, &pair] {
        let valid = lock.extend().await.unwrap();
        assert!(valid > lock.remaining() / 2);
    }
    assert!(matches!(one.release().await.unwrap(), Released::Released));
    assert!(matches!(pair.release().await.unwrap(), Released::Released));
    for server in &servers {
        assert_eq!(server.keys("redlock:lock:*"), Vec::<String>::new());
    }
    limit(&servers, "0");
    works(&redlock).await;
}

#[tokio::test]
async fn a_full_server_really_renews_the_time_to_live() {
    let servers = RedisServer::start_n(3);
    let redlock = manager(urls(&servers));
    all_vote(&redlock).await;
    let lock = redlock.lock("a").await.unwrap();
    limit(&servers, "1");
    for server in &servers {
        assert_eq!(server.cli(&["PEXPIRE", "redlock:lock:a", "30000"]), Resp::Int(1));
    }
    lock.extend().await.unwrap();
    crate::support::eventually_async("all three are renewed", async || {
        servers.iter().all(|server| server.pttl("redlock:lock:a") > 30_000)
    })
    .await;
}

#[tokio::test]
async fn a_lock_that_a_full_server_has_lost_is_kept_by_the_others() {
    let servers = RedisServer::start_n(3);
    let redlock = manager(urls(&servers));
    all_vote(&redlock).await;
    let lock = redlock.lock("a").await.unwrap();
    limit(&servers, "1");
    servers[0].cli(&["DEL", "redlock:lock:a"]);
    lock.extend().await.unwrap();
    servers[1].cli(&["DEL", "redlock:lock:a"]);
    let error = lock.extend().await.unwrap_err().to_string();
    assert!(error.contains("out of memory"), "{error}");
    assert!(lock.is_valid(), "a failed extension gave up what is still valid");
}
