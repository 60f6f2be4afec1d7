//! Locks of other libraries on the same servers: `SET NX PX`, and a release that compares the value.

use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tower_redlock::{Lock, LockError, LockOptions, Redlock, node::redis::RestartGuard};

use crate::fixture::{
    Fixture, HANG_GUARD, LONG, RedisServer, Resp, connected, eventually, eventually_async, key,
    patient, urls,
};

/// The scripts that most libraries use.
const RELEASE: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";
const EXTEND: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end";

/// A value like those of rslock: twenty bytes that are not text.
const VALUE: &[u8] = b"\x00\xff\r\n\t 0123456789\x80\x0a\x0d";

/// A client of another library, over all servers or some of them.
struct OtherClient<'a> {
    servers: &'a [RedisServer],
    key: String,
}

impl<'a> OtherClient<'a> {
    /// A client that locks the key of the lock `name` of this crate.
    fn of(servers: &'a [RedisServer], name: &str) -> Self {
        Self { servers, key: key(name) }
    }

    /// Returns the number of servers that granted the lock.
    fn acquire(&self, ttl: Duration) -> usize {
        let ttl = ttl.as_millis().to_string();
        let set: [&[u8]; 6] = [b"SET", self.key.as_bytes(), VALUE, b"NX", b"PX", ttl.as_bytes()];
        let granted = |server: &&RedisServer| matches!(server.cli(&set), Resp::Simple(_));
        self.servers.iter().filter(granted).count()
    }

    fn eval(&self, script: &str, more: &[&[u8]]) -> Vec<Resp> {
        let eval = [b"EVAL", script.as_bytes(), b"1", self.key.as_bytes(), VALUE];
        self.servers.iter().map(|server| server.cli(&[&eval[..], more].concat())).collect()
    }

    /// Returns the number of servers that had the lock of this client.
    fn release(&self) -> usize {
        self.eval(RELEASE, &[]).iter().filter(|answer| **answer == Resp::Int(1)).count()
    }

    /// Returns the number of servers that have the lock of this client.
    fn extend(&self, ttl: Duration) -> usize {
        let answers = self.eval(EXTEND, &[ttl.as_millis().to_string().as_bytes()]);
        answers.iter().filter(|answer| **answer == Resp::Int(1)).count()
    }

    /// Returns the number of servers whose key has the value that this client stored.
    fn kept(&self) -> usize {
        self.servers.iter().filter(|server| server.get(&self.key).as_deref() == Some(VALUE)).count()
    }
}

#[tokio::test]
async fn held_lock_refuses_other_library() {
    let (fixture, redlock) = Fixture::patient().await;
    let other = OtherClient::of(&fixture.servers, "x");
    for shared in [false, true] {
        let lock = redlock.lock("x").options(LockOptions::new().shared(shared)).await.unwrap();
        fixture.keys_everywhere().await;
        assert_eq!((other.acquire(LONG), other.extend(LONG), other.release()), (0, 0, 0));
        lock.extend().await.unwrap();
        lock.release().await.unwrap();
        fixture.all_keys_gone().await;
    }
    assert_eq!(other.acquire(LONG), 3);
}

#[tokio::test]
async fn other_library_is_an_unknown_holder() {
    let fixture = Fixture::new(3);
    let other = OtherClient::of(&fixture.servers, "x");
    let redlock = fixture.direct(patient()).await;
    assert_eq!(other.acquire(LONG), 3);
    for options in [LockOptions::new(), LockOptions::new().shared(true)] {
        let refused = redlock.lock("x").options(options).await;
        let Err(LockError::Held { owner: None, expires_in: Some(left), .. }) = &refused else {
            panic!("{refused:?}");
        };
        assert!(*left <= LONG && *left > LONG / 2, "{left:?}");
    }
    let holder = redlock.inspect("x").await.unwrap().expect("it is held");
    assert_eq!(holder.owner, None);
    assert_eq!(other.extend(LONG), 3);
}

#[tokio::test]
async fn request_waits_for_other_library() {
    let fixture = Fixture::new(3);
    let other = OtherClient::of(&fixture.servers, "x");
    let redlock = fixture.direct(patient()).await;
    assert_eq!(other.acquire(LONG), 3);
    let waiting = waiting_for_x(&redlock);
    eventually_async("the request was refused, and waits", async || {
        fixture.servers.iter().any(|server| server.info("stats", "pubsub_channels").unwrap() != "0")
    })
    .await;
    // Neither the attempts nor the marks of a waiting request change the value.
    assert_eq!((other.kept(), other.extend(LONG), other.release()), (3, 3, 3));
    let lock = waiting.await.unwrap().unwrap();
    assert!(other.acquire(LONG) < 2, "both have a quorum");
    assert!(lock.is_valid());
}

#[tokio::test]
async fn ttl_of_other_library_is_respected() {
    const TTL: Duration = Duration::from_millis(700);
    let fixture = Fixture::new(3);
    let other = OtherClient::of(&fixture.servers, "x");
    let redlock = fixture.direct(patient()).await;
    let begun = Instant::now();
    assert_eq!(other.acquire(TTL), 3);
    let _lock = waiting_for_x(&redlock).await.unwrap().unwrap();
    assert!(begun.elapsed() >= TTL, "{:?}", begun.elapsed());
    // The third server may have stored its key later.
    eventually("no server has the other lock", || other.kept() == 0);
}

/// A prefix and a name make the key that the other library has used so far.
#[tokio::test]
async fn prefix_makes_key_of_other_library() {
    let servers = RedisServer::start_n(1);
    let other = OtherClient { servers: &servers, key: "shop:lock:invoice:42".into() };
    assert_eq!(other.acquire(LONG), 1);
    // As the default user, who may use the prefix.
    let builder = patient().nodes([servers[0].plain_url()]).key_prefix("shop");
    let redlock = connected(builder.restart_guard(RestartGuard::Off)).await;
    let refused = redlock.lock("invoice:42").await;
    assert!(matches!(refused, Err(LockError::Held { owner: None, .. })), "{refused:?}");
}

/// The limit of sharing a key: the other library has to ask a majority of the same servers.
#[tokio::test]
async fn one_of_three_servers_excludes_nothing() {
    let fixture = Fixture::new(3);
    let other = OtherClient::of(&fixture.servers[..1], "x");
    let redlock = fixture.direct(patient()).await;
    assert_eq!(other.acquire(LONG), 1);
    let lock = redlock.lock("x").await.unwrap();
    assert!(lock.is_valid());
    assert_eq!(other.extend(LONG), 1, "both hold it");
}

/// Slots have keys of their own.
#[tokio::test]
async fn slots_do_not_exclude_other_library() {
    let fixture = Fixture::new(3);
    let other = OtherClient::of(&fixture.servers, "x");
    let redlock = fixture.direct(patient()).await;

    let _slot = redlock.lock("x").slots(2).await.unwrap();

    assert_eq!(other.acquire(LONG), 3);
}

/// A server in probation grants nothing to this crate, but all to other libraries.
#[tokio::test]
async fn blank_server_grants_to_other_library_at_once() {
    let mut servers = RedisServer::start_n(3);
    let builder = Redlock::builder().ttl(Duration::from_secs(3));
    let redlock = connected(builder.nodes(urls(&servers))).await;
    let lock = redlock.lock("x").wait(HANG_GUARD).await.unwrap();
    eventually("every server has the key", || servers.iter().all(|s| s.exists(&key("x"))));
    servers[2].restart();
    let other = OtherClient::of(&servers, "x");
    assert_eq!(other.acquire(LONG), 1, "the blank server");
    assert!(lock.is_valid());
    lock.extend().await.unwrap();
}

/// With a `max_ttl` that is not less than the TTL of the other library.
#[tokio::test]
async fn probation_outlasts_forgotten_lock_of_other_library() {
    const TTL: Duration = Duration::from_secs(2);
    let mut servers = RedisServer::start_n(1);
    let redlock = connected(Redlock::builder().ttl(TTL).nodes(urls(&servers))).await;
    let begun = Instant::now();
    assert_eq!(OtherClient::of(&servers, "x").acquire(TTL), 1);
    servers[0].restart();
    assert!(!servers[0].exists(&key("x")));
    let _lock = waiting_for_x(&redlock).await.unwrap().unwrap();
    assert!(begun.elapsed() >= TTL, "{:?}", begun.elapsed());
}

/// A request that waits in a task of its own.
fn waiting_for_x(redlock: &Redlock) -> JoinHandle<Result<Lock, LockError>> {
    let redlock = redlock.clone();
    tokio::spawn(async move { redlock.lock("x").wait(HANG_GUARD).await })
}
