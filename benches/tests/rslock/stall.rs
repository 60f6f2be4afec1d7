//! The process of a holder is stopped until another client has the lock, and then continues.

use std::time::Duration;

use rustix::process::Signal;
use tower_redlock::LockError;

use crate::{
    child::{TestProcess, orders},
    clients::{NAME, SHORT, redlock, rslock, set_nx_px},
    support::{HANG_GUARD, LONG, RedisServer, all_vote, eventually, eventually_async, in_time},
};

/// A server that the holder writes to, as to a database.
struct Database(redis::aio::MultiplexedConnection);

impl Database {
    async fn connect(url: &str) -> Self {
        let client = redis::Client::open(url).unwrap();
        Self(client.get_multiplexed_async_connection().await.unwrap())
    }

    /// Repeated if it fails: the process may be stopped before it has read the answer, which then comes too late.
    async fn set(&mut self, key: &str) {
        let set = redis::cmd("SET").arg(key).arg("1").to_owned();
        while set.query_async::<()>(&mut self.0).await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// The work under the lock: it begins, waits for something, and writes its result.
    async fn work(&mut self) {
        self.set("began").await;
        while !redis::cmd("EXISTS").arg("go").query_async(&mut self.0).await.unwrap_or(false) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        self.set("result").await;
    }
}

/// A process that holds a lock, and its database.
struct Holder {
    process: TestProcess,
    database: RedisServer,
}

impl Holder {
    /// Starts the test `name` as another process, and stops that when it has the lock.
    fn stopped(name: &str, servers: &[RedisServer]) -> Self {
        let database = RedisServer::start();
        let urls = [&database].into_iter().chain(servers).map(RedisServer::plain_url);
        let orders = urls.collect::<Vec<_>>().join(",");
        let process = TestProcess::start(module_path!(), name, &orders);
        eventually("the holder works", || database.exists("began"));
        process.signal(Signal::STOP);
        Self { process, database }
    }

    /// Continues the process, whose work has nothing left to wait for.
    fn go_on(&self) {
        self.database.set("go", "1");
        self.process.signal(Signal::CONT);
    }
}

/// The URLs of the database and of the lock's servers, in the holder's process.
async fn of_holder() -> Option<(Database, Vec<String>)> {
    let orders = orders()?;
    let mut urls = orders.split(',').map(ToOwned::to_owned);
    let database = Database::connect(&urls.next().unwrap()).await;
    Some((database, urls.collect()))
}

#[tokio::test]
async fn holder_by_hand() {
    let Some((mut database, urls)) = of_holder().await else { return };
    let Database(mut server) = Database::connect(&urls[0]).await;
    let mut set = redis::cmd("SET");
    set.arg(NAME).arg("nonce").arg("NX").arg("PX").arg(SHORT.as_millis().to_string());
    let _: () = set.query_async(&mut server).await.unwrap();
    database.work().await;
}

#[tokio::test]
async fn holder_by_rslock() {
    let Some((mut database, urls)) = of_holder().await else { return };
    let _lock = rslock(urls).lock(NAME, SHORT).await.unwrap();
    database.work().await;
}

#[tokio::test]
async fn holder_by_ours() {
    let Some((mut database, urls)) = of_holder().await else { return };
    let redlock = redlock(urls);
    all_vote(&redlock).await;
    let done = redlock.lock(NAME).run(async |_| database.work().await).await;
    assert!(matches!(done, Err(LockError::Lost { .. })), "{done:?}");
    database.set("stopped").await;
}

#[test]
fn by_hand_writes_beside_next_holder() {
    let server = RedisServer::start();
    let holder = Holder::stopped("holder_by_hand", std::slice::from_ref(&server));
    eventually("the lock expires", || set_nx_px(&server, LONG));

    holder.go_on();

    eventually("the former holder writes", || holder.database.exists("result"));
    assert!(server.exists(NAME), "the next holder has the lock");
}

#[tokio::test]
async fn rslock_writes_beside_next_holder() {
    let servers = RedisServer::start_n(3);
    let holder = Holder::stopped("holder_by_rslock", &servers);
    let second = rslock(servers.iter().map(RedisServer::plain_url));
    eventually_async("the lock expires", async || second.lock(NAME, LONG).await.is_ok()).await;

    holder.go_on();

    eventually("the former holder writes", || holder.database.exists("result"));
    // Of a lock that is granted late, one server may lack the key.
    let holding = servers.iter().filter(|server| server.exists(NAME)).count();
    assert!(holding > 1, "the next holder has the lock");
}

#[tokio::test]
async fn ours_stops_before_it_writes() {
    let servers = RedisServer::start_n(3);
    let second = redlock(servers.iter().map(RedisServer::plain_url));
    all_vote(&second).await;
    let holder = Holder::stopped("holder_by_ours", &servers);
    let next = in_time(async { second.lock(NAME).wait(HANG_GUARD).await }).await.unwrap();

    holder.go_on();

    eventually("the former holder reports the loss", || holder.database.exists("stopped"));
    assert!(!holder.database.exists("result"), "it wrote beside the next holder");
    assert!(next.is_valid());
    holder.process.finish();
}
