//! Managers that outlive their runtime, and runtimes that outlive their manager.

use std::{fs, future::Future, task::Poll, time::Duration};

use tokio::time::timeout;
use tower_redlock::{LockError, Redlock, lock::Released, node::NodeState};

use crate::fixture::{
    Fixture, HANG_GUARD, LONG, RedisServer, brisk,
    child::{TestProcess, orders},
    eventually, key, over, patient, poll_once, runtime,
};

/// Runs in a runtime that is dropped afterwards.
fn in_a_runtime<T>(future: impl Future<Output = T>) -> T {
    runtime().block_on(future)
}

#[test]
fn manager_serves_two_runtimes_in_succession() {
    let fixture = Fixture::new(3);
    let urls = fixture.servers.iter().map(RedisServer::url);
    let redlock = over(patient(), urls).build().unwrap();
    let first = in_a_runtime(async { redlock.lock("x").wait(HANG_GUARD).await.unwrap() });
    let token = first.fencing_token();
    in_a_runtime(async {
        assert_eq!(first.release().await, Ok(Released::Released));
        let second = redlock.lock("x").await.unwrap();
        assert!(second.fencing_token() > token);
    });
    in_a_runtime(fixture.all_keys_gone());
}

#[tokio::test]
async fn late_servers_are_connected() {
    let mut servers = RedisServer::start_n(3);
    servers.iter_mut().for_each(RedisServer::kill);
    let redlock = over(brisk(), servers.iter().map(RedisServer::url)).build().unwrap();
    eventually("every node is seen to be down", || {
        redlock.health().iter().all(|node| matches!(node.state, NodeState::Down { .. }))
    });
    let mut ready = Box::pin(redlock.ready());
    assert_eq!(poll_once(&mut ready), Poll::Pending);
    servers[0].restart();
    eventually("one node votes", || redlock.health()[0].is_voting());
    assert_eq!(poll_once(&mut ready), Poll::Pending, "one node is no quorum");
    servers[1].restart();
    timeout(HANG_GUARD, ready).await.expect("it returns in time").expect("a quorum votes");
    drop(redlock.lock("x").wait(HANG_GUARD).await.unwrap());
}

#[tokio::test]
async fn first_request_waits_for_first_connections() {
    let servers = RedisServer::start_n(3);
    let redlock = over(patient(), servers.iter().map(RedisServer::url)).build().unwrap();
    drop(redlock.lock("x").await.expect("a request before the first connection waits for it"));
}

#[tokio::test]
async fn shutdown_leaves_no_key_or_lock() {
    let (fixture, redlock) = Fixture::patient_proxied().await;
    let clone = redlock.clone();
    for i in 0..50 {
        drop(redlock.lock(format!("x{i}")).await.unwrap());
    }
    fixture.proxies.iter().for_each(|proxy| proxy.set_delay(Duration::from_millis(50)));
    let last = redlock.lock("last").await.unwrap();
    let held = redlock.lock("held").await.unwrap();
    drop(last);
    timeout(HANG_GUARD, redlock.shutdown()).await.expect("it ends");
    for server in &fixture.servers {
        assert_eq!(server.keys("redlock:lock:*"), [key("held")]);
    }
    assert_eq!(clone.lock("y").await.unwrap_err(), LockError::Closed);
    assert_eq!(clone.lock("y").wait(LONG).await.unwrap_err(), LockError::Closed);
    assert!(held.is_valid(), "the lock remains held");
    held.extend().await.unwrap();
    drop(held);
    timeout(HANG_GUARD, redlock.shutdown()).await.expect("it ends a second time");
    assert_eq!(fixture.key_counts(), [0, 0, 0]);
}

#[tokio::test]
async fn shutdown_does_not_await_frozen_node() {
    let fixture = Fixture::new(3);
    let redlock = fixture.direct(brisk()).await;
    fixture.servers[0].freeze();
    drop(redlock.lock("x").wait(HANG_GUARD).await.unwrap());
    timeout(HANG_GUARD, redlock.shutdown()).await.expect("it ends");
    for server in &fixture.servers[1..] {
        assert!(!server.exists(&key("x")));
    }
}

#[tokio::test]
async fn shutdown_ends_waits_for_other_clients() {
    let fixture = Fixture::new(3);
    let other = fixture.direct(patient()).await;
    let redlock = fixture.direct(patient()).await;
    let _lock = other.lock("x").await.unwrap();
    let mut request = redlock.lock("x").wait(LONG).into_future();
    assert!(poll_once(&mut request).is_pending());
    eventually("it has been refused", || redlock.health().iter().all(|node| node.in_flight == 0));
    assert!(poll_once(&mut request).is_pending());
    redlock.shutdown().await;
    let result = timeout(HANG_GUARD, request).await.expect("the request returns");
    assert_eq!(result.unwrap_err(), LockError::Closed);
}

#[tokio::test]
async fn last_handle_and_lock_drop_anyhow() {
    let fixture = Fixture::new(3);
    for lock_first in [true, false] {
        let redlock = fixture.direct(patient()).await;
        let lock = redlock.lock("x").await.unwrap();
        if lock_first {
            drop(lock);
            drop(redlock);
        } else {
            drop(redlock);
            lock.extend().await.expect("a lock outlives the handle");
            drop(lock);
        }
        fixture.all_keys_gone().await;
    }
}

/// The crate's threads in this process.
#[cfg(target_os = "linux")]
fn threads() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.trim() == "tower-redlock").count()
}

#[cfg(target_os = "linux")]
#[test]
fn census() {
    let Some(orders) = orders() else { return };
    let build = || over(patient(), orders.split(' ')).build().unwrap();
    let (a, b) = (build(), build());
    // A thread names itself when it starts to run.
    eventually("each manager has a thread", || threads() == 2);
    let clone = a.clone();
    in_a_runtime(async { drop(a.lock("x").wait(HANG_GUARD).await.unwrap()) });
    let lock = in_a_runtime(async { b.lock("y").wait(HANG_GUARD).await.unwrap() });
    drop((a, b));
    assert_eq!(threads(), 2, "a clone and a lock are left");
    drop(clone);
    eventually("the first manager's thread ends", || threads() == 1);
    assert!(lock.is_valid());
    drop(lock);
    eventually("the second manager's thread ends", || threads() == 0);
    let unused = Redlock::embedded();
    eventually("embedded nodes need one too", || threads() == 1);
    drop(unused);
    eventually("an unused manager's thread ends", || threads() == 0);
}

#[cfg(target_os = "linux")]
#[test]
fn background_thread_ends_with_last_handle() {
    let servers = RedisServer::start_n(3);
    let urls = servers.iter().map(RedisServer::url).collect::<Vec<_>>().join(" ");
    TestProcess::start(module_path!(), "census", &urls).finish();
    assert!(servers.iter().all(|server| server.keys("redlock:lock:*").is_empty()));
}
