//! Failures of servers and connections of a `RedisStore`, and the recovery from them.

use std::{
    future::ready,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::sync::Semaphore;
use tower_redlock::{
    node::redis::{Address, AuthToken, Connecting, Connector, Credentials, SocketConnector},
    once::{RedisStore, ResponseStore},
};

use crate::fixture::{FakeServer, HANG_GUARD, Reaction, RedisServer, eventually_async};

use super::redis_store::{DAY, cause, get, put};

/// An address that first leads to one server, and later to another.
#[derive(Clone, Debug)]
struct VirtualAddress(Arc<Mutex<std::net::SocketAddr>>);

impl VirtualAddress {
    fn of(server: &RedisServer) -> Self {
        Self(Arc::new(Mutex::new(server.addr())))
    }

    fn lead_to(&self, server: &RedisServer) {
        *self.0.lock().unwrap() = server.addr();
    }
}

impl Connector for VirtualAddress {
    fn connect(&self, _: &Address) -> Connecting {
        let at = *self.0.lock().unwrap();
        let address = Address::Tcp { host: at.ip().to_string(), port: at.port() };
        SocketConnector::new().connect(&address)
    }
}

#[tokio::test]
async fn failover_behind_one_address_is_followed() {
    let (master, replica) = (RedisServer::start(), RedisServer::start());
    replica.replica_of(&master);
    let address = VirtualAddress::of(&master);
    let builder = RedisStore::builder("redis://answers.internal").timeout(HANG_GUARD);
    let store = builder.connector(address.clone()).build().unwrap();
    assert!(put(&store, "before", 1, DAY, 1).await);
    replica.catch_up_with(&master);
    replica.promote();
    master.replica_of(&replica);
    address.lead_to(&replica);
    assert!(put(&store, "after", 2, DAY, 1).await);
    assert_eq!(get(&store, "before").await, Some((1, 1)));
    assert!(replica.exists("redlock:answer:after"));
}

#[tokio::test]
async fn replica_gets_new_connection_each_time() {
    let (master, replica) = (RedisServer::start(), RedisServer::start());
    replica.replica_of(&master);
    let address = VirtualAddress::of(&replica);
    let builder = RedisStore::builder("redis://answers.internal").timeout(HANG_GUARD);
    let store = builder.connector(address.clone()).build().unwrap();
    let response = super::redis_store::response("x");
    let refused = store.put("a", response, DAY, tower_redlock::FencingToken::new(1)).await;
    let text = cause(&refused.unwrap_err());
    assert!(text.contains("read-only"), "{text}");
    address.lead_to(&master);
    assert!(put(&store, "a", 1, DAY, 1).await);
}

/// A server that answers GET with these replies in order, and then with null.
fn answering(answers: &[Reaction]) -> FakeServer {
    let (answers, next) = (answers.to_vec(), AtomicUsize::new(0));
    FakeServer::start(move |command| {
        assert_eq!(command[0], b"GET");
        let next = next.fetch_add(1, Ordering::SeqCst);
        answers.get(next).cloned().unwrap_or_else(Reaction::null)
    })
}

fn store(server: &FakeServer) -> RedisStore {
    RedisStore::builder(server.url()).timeout(HANG_GUARD).build().unwrap()
}

#[tokio::test]
async fn curable_errors_end_the_connection() {
    for error in [
        "READONLY You can't write against a read only replica.",
        "LOADING Redis is loading the dataset in memory",
        "NOAUTH Authentication required.",
        "WRONGPASS invalid username-password pair or user is disabled.",
        "NOPERM this user has no permissions to run the 'get' command",
    ] {
        let error = Reaction::error(error);
        let server = answering(&[Reaction::null(), error.clone(), Reaction::null()]);
        let store = store(&server);
        for _ in 0..3 {
            assert_eq!(get(&store, "a").await, None);
        }
        assert_eq!(server.connections(), 2, "{error:?}");
        let server = answering(&[error.clone(), error.clone()]);
        let store = self::store(&server);
        for _ in 0..2 {
            store.get("a").await.unwrap_err();
        }
        assert_eq!(get(&store, "a").await, None);
        assert_eq!(server.connections(), 3, "{error:?}");
    }
}

#[tokio::test]
async fn other_errors_keep_the_connection() {
    for error in ["OOM command not allowed", "BUSY running a script", "ERR unknown"] {
        let server = answering(&[Reaction::null(), Reaction::error(error)]);
        let store = store(&server);
        assert_eq!(get(&store, "a").await, None);
        store.get("a").await.unwrap_err();
        assert_eq!(get(&store, "a").await, None);
        assert_eq!(server.connections(), 1, "{error}");
    }
}

#[tokio::test]
async fn user_without_permissions_is_replaced() {
    let server = RedisServer::start();
    let grant = |user: &str| {
        let rules = ["on", ">s3cret", "~redlock:answer:*", "-@all", "+eval", "+get", "+set"];
        let rules = [&["ACL", "SETUSER", user][..], &rules, &["+getrange"]].concat();
        server.cli(&rules);
    };
    grant("old");
    grant("new");
    let user = Arc::new(Mutex::new("old"));
    let current = Arc::clone(&user);
    let credentials = Credentials::callback(move || {
        ready(Ok(AuthToken::new(*current.lock().unwrap(), "s3cret")))
    });
    let builder = RedisStore::builder(format!("redis://{}", server.addr())).timeout(HANG_GUARD);
    let store = builder.credentials(credentials).build().unwrap();
    assert!(put(&store, "a", 1, DAY, 1).await);
    *user.lock().unwrap() = "new";
    server.cli(&["ACL", "SETUSER", "old", "-@all"]);
    assert!(put(&store, "a", 2, DAY, 2).await);
    assert_eq!(get(&store, "a").await, Some((2, 2)));
}

/// The callback continues when a call fails because its token is missing.
#[tokio::test]
async fn slow_token_callback_is_awaited() {
    let server = RedisServer::start();
    server.cli(&["ACL", "SETUSER", "app", "on", ">s3cret", "~*", "+@all"]);
    let (calls, gate) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
    let credentials = Credentials::callback({
        let (calls, gate) = (Arc::clone(&calls), Arc::clone(&gate));
        move || {
            calls.fetch_add(1, Ordering::SeqCst);
            let gate = Arc::clone(&gate);
            async move {
                gate.acquire().await?.forget();
                Ok(AuthToken::new("app", "s3cret"))
            }
        }
    });
    let builder = RedisStore::builder(format!("redis://{}", server.addr()));
    let timeout = Duration::from_millis(500);
    let store = builder.timeout(timeout).credentials(credentials).build().unwrap();
    let error = store.get("a").await.unwrap_err();
    let text = std::error::Error::source(&error).unwrap().to_string();
    assert!(text.contains("the credentials callback has not returned"), "{text}");
    gate.add_permits(1);
    eventually_async("it answers", async || store.get("a").await.is_ok()).await;
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}
