//! Commands that reach a server behind the release that was sent after them.

use std::{collections::HashSet, time::Duration};

use tower_redlock::{LockError, Redlock, RedlockBuilder, node::NodeState};

use super::scene::{KEY, LONG, in_time};
use crate::support::{HANG_GUARD, Proxy, RedisServer, Resp, eventually, eventually_async, over};

/// A late command may run for two of these.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Longest time by which a lock is lost before the end of its validity.
const LONGEST_LEAD: Duration = Duration::from_millis(22);

struct Way {
    server: RedisServer,
    proxy: Proxy,
    redlock: Redlock,
}

async fn way(builder: RedlockBuilder) -> Way {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.addr());
    let redlock = over(builder.ttl(LONG), [proxy.url()]).build().unwrap();
    in_time(redlock.ready()).await.unwrap();
    Way { server, proxy, redlock }
}

impl Way {
    /// A connection whose acquire is in flight, while the client uses another one.
    async fn with_a_late_acquire() -> Self {
        let way = way(Redlock::builder().node_timeout(TIMEOUT)).await;
        way.proxy.hold();
        let attempt = async { way.redlock.lock("a").await };
        let cut = async {
            way.is_held().await;
            way.proxy.drop_clients();
        };
        let (result, ()) = in_time(async { tokio::join!(attempt, cut) }).await;
        assert!(matches!(result, Err(LockError::NoQuorum { .. })), "{result:?}");
        way
    }

    /// The same with the renewal of a lock whose key is gone.
    async fn with_a_late_renewal() -> Self {
        let way = way(Redlock::builder().node_timeout(TIMEOUT)).await;
        // Without a second renewal that would come by the new connection.
        let lock = way.redlock.lock("a").auto_extend(false).await.unwrap();
        way.server.cli(&["DEL", KEY]);
        way.server.cli(&["CONFIG", "RESETSTAT"]);
        way.proxy.hold();
        tokio::select! {
            biased;
            extended = lock.extend() => panic!("{extended:?}"),
            () = way.is_held() => way.proxy.drop_clients(),
        }
        drop(lock);
        way
    }

    async fn is_held(&self) {
        eventually_async("it is on the way", async || self.proxy.holds(KEY)).await;
    }

    /// How often the server ran a command without an error, in scripts too.
    fn count(&self, command: &str) -> u64 {
        let stats = self.server.info("commandstats", &format!("cmdstat_{command}"));
        let stats = stats.unwrap_or_default();
        let number = |name: &str| -> u64 {
            let field = stats.split(',').find_map(|field| field.strip_prefix(name));
            field.map_or(0, |number| number.parse().expect("a number"))
        };
        number("calls=") - number("failed_calls=")
    }

    fn pending(&self) -> usize {
        self.redlock.health()[0].pending_releases
    }

    /// A release came to the server, by a new connection: nothing else is sent there by a digest.
    async fn is_released_once(&self) {
        eventually_async("it is released", async || self.count("evalsha") > 0).await;
        assert_eq!(self.count("set"), 0, "what is on the way has not come");
    }

    /// The server has passed the deadline of the command in flight, and answered another since.
    async fn is_released_for_good(&self) {
        eventually_async("it is released again until there is nothing left", async || {
            self.count("evalsha") > 1 && self.pending() == 0
        })
        .await;
    }
}

#[tokio::test]
async fn acquire_behind_its_release_is_undone() {
    let way = Way::with_a_late_acquire().await;
    way.is_released_once().await;
    way.proxy.deliver();
    assert_eq!(way.count("set"), 1, "it came within its deadline, and ran");
    eventually("the key is gone", || !way.server.exists(KEY));
    way.is_released_for_good().await;
    assert!(!way.server.exists(KEY));
}

#[tokio::test]
async fn acquire_after_last_release_is_dropped() {
    let way = Way::with_a_late_acquire().await;
    way.is_released_for_good().await;
    way.proxy.deliver();
    assert_eq!(way.count("set"), 0);
    assert!(!way.server.exists(KEY));
}

#[tokio::test]
async fn renewal_behind_its_release_is_undone() {
    let way = Way::with_a_late_renewal().await;
    way.is_released_once().await;
    way.proxy.deliver();
    assert_eq!(way.count("set"), 1, "it came within its deadline, and stored the key again");
    eventually("the key is gone", || !way.server.exists(KEY));
    way.is_released_for_good().await;
    assert!(!way.server.exists(KEY));
}

#[tokio::test]
async fn renewal_after_last_release_stores_nothing() {
    let way = Way::with_a_late_renewal().await;
    way.is_released_for_good().await;
    way.proxy.deliver();
    assert_eq!(way.count("set"), 0);
    assert!(!way.server.exists(KEY));
}

#[tokio::test]
async fn renewal_after_its_validity_is_dropped() {
    // The validity ends long before two node timeouts have passed.
    let way = way(Redlock::builder().node_timeout(TIMEOUT)).await;
    let lock = way.redlock.lock("a").max_hold(TIMEOUT / 4).await.unwrap();
    way.server.cli(&["DEL", KEY]);
    way.server.cli(&["CONFIG", "RESETSTAT"]);
    way.proxy.hold();
    let held = async {
        way.is_held().await;
        lock.lost().await;
        // It is lost before the end.
        tokio::time::sleep(LONGEST_LEAD).await;
    };
    let (extended, ()) = in_time(async { tokio::join!(lock.extend(), held) }).await;
    assert!(extended.is_err());
    way.proxy.deliver();
    assert_eq!(way.count("set"), 0);
}

#[tokio::test]
async fn paused_server_keeps_nothing_late() {
    // The connection is given up after ten of these, and what was sent on it has to run within two.
    let way = way(Redlock::builder().node_timeout(Duration::from_millis(50))).await;
    way.server.freeze();
    for _ in 0..3 {
        let result = in_time(async { way.redlock.lock("a").await }).await;
        assert!(matches!(result, Err(LockError::NoQuorum { .. })), "{result:?}");
    }
    eventually_async("the connection is replaced", async || {
        matches!(way.redlock.health()[0].state, NodeState::Down { .. })
    })
    .await;
    eventually_async("they are still to be released", async || way.pending() == 3).await;
    way.server.thaw();
    eventually_async("nothing is left to release", async || way.pending() == 0).await;
    assert!(!way.server.exists(KEY));
    assert_eq!(way.count("set"), 0, "nothing ran: it was too late");
}

#[tokio::test]
async fn server_resuming_in_time_keeps_nothing() {
    let way = way(Redlock::builder().node_timeout(TIMEOUT)).await;
    way.server.freeze();
    let before = way.proxy.bytes_up();
    let attempt = async { way.redlock.lock("a").await };
    let cut = async {
        eventually_async("it is sent", async || way.proxy.bytes_up() > before).await;
        way.proxy.cut();
        way.proxy.heal();
        way.server.thaw();
    };
    let (result, ()) = in_time(async { tokio::join!(attempt, cut) }).await;
    assert!(matches!(result, Err(LockError::NoQuorum { .. })), "{result:?}");
    eventually_async("what it was sent runs", async || way.count("set") == 1).await;
    way.is_released_for_good().await;
    assert!(!way.server.exists(KEY));
}

#[tokio::test]
async fn every_attempt_has_its_own_nonce() {
    let way = way(Redlock::builder().node_timeout(TIMEOUT)).await;
    way.server.set(KEY, "somebody's");
    way.server.set_config("slowlog-max-len", "1000");
    way.server.set_config("slowlog-log-slower-than", "0");
    let attempts = 5;
    let result = way.redlock.lock("a").wait(HANG_GUARD).max_attempts(attempts).await;
    assert!(matches!(result, Err(LockError::Held { .. })), "{result:?}");
    let acquires: Vec<_> = slow_log(&way.server)
        .into_iter()
        .filter(|args| args[0] == "EVALSHA" && args.iter().any(|arg| arg.starts_with("a 0")))
        .collect();
    let nonce = |args: &Vec<String>| {
        let is_nonce =
            |arg: &&String| arg.len() == 32 && arg.chars().all(|c| c.is_ascii_hexdigit());
        args.iter().find(is_nonce).expect("a nonce").clone()
    };
    assert_eq!(acquires.len(), usize::try_from(attempts).unwrap(), "{acquires:?}");
    assert_eq!(acquires.iter().map(nonce).collect::<HashSet<_>>().len(), acquires.len());
}

/// The commands that the server ran, with their arguments.
fn slow_log(server: &RedisServer) -> Vec<Vec<String>> {
    let command = |entry: Resp| {
        let args = entry.items().into_iter().nth(3).expect("the arguments");
        args.items().into_iter().map(Resp::text).collect()
    };
    server.cli(&["SLOWLOG", "GET", "1000"]).items().into_iter().map(command).collect()
}
