//! Commands that reach a server after the release that was sent after them.

use std::{collections::HashSet, time::Duration};

use tower_redlock::{LockError, Redlock, RedlockBuilder};

use crate::fixture::{
    HANG_GUARD, Proxy, RedisServer, Resp, clock::KEY, eventually, eventually_async, in_time, over,
};

/// A late renewal may run until two of these have passed.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The TTL of locks; a late acquire stores nothing afterwards.
const TTL: Duration = Duration::from_secs(5);
/// Maximum time between the loss of a lock and the end of its validity.
const LONGEST_LEAD: Duration = Duration::from_millis(22);

struct InFlight {
    server: RedisServer,
    proxy: Proxy,
    redlock: Redlock,
}

async fn in_flight(builder: RedlockBuilder) -> InFlight {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.addr());
    let redlock = over(builder.ttl(TTL), [proxy.url()]).build().unwrap();
    in_time(redlock.ready()).await.unwrap();
    InFlight { server, proxy, redlock }
}

impl InFlight {
    /// A connection whose acquire is in flight, while the client uses another one.
    async fn with_a_late_acquire() -> Self {
        let in_flight = in_flight(Redlock::builder().node_timeout(TIMEOUT)).await;
        in_flight.proxy.hold();
        let attempt = async { in_flight.redlock.lock("a").await };
        let cut = async {
            in_flight.is_held().await;
            in_flight.proxy.drop_clients();
        };
        let (result, ()) = in_time(async { tokio::join!(attempt, cut) }).await;
        assert!(matches!(result, Err(LockError::NoQuorum { .. })), "{result:?}");
        in_flight
    }

    /// The same with the renewal of a lock whose key is gone.
    async fn with_a_late_renewal() -> Self {
        let in_flight = in_flight(Redlock::builder().node_timeout(TIMEOUT)).await;
        // No second renewal, which would use the new connection.
        let lock = in_flight.redlock.lock("a").auto_extend(false).await.unwrap();
        in_flight.server.cli(&["DEL", KEY]);
        in_flight.server.cli(&["CONFIG", "RESETSTAT"]);
        in_flight.proxy.hold();
        tokio::select! {
            biased;
            extended = lock.extend() => panic!("{extended:?}"),
            () = in_flight.is_held() => in_flight.proxy.drop_clients(),
        }
        drop(lock);
        in_flight
    }

    async fn is_held(&self) {
        eventually_async("the command is in flight", async || self.proxy.holds(KEY)).await;
    }

    /// Number of runs of a command without an error, including those by scripts.
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
        self.redlock.health()[0].unacknowledged
    }

    /// Waits until a release reaches the server by a new connection: only releases use a digest there.
    async fn is_released_once(&self) {
        eventually_async("the release arrives", async || self.count("evalsha") > 0).await;
        assert_eq!(self.count("set"), 0, "the command in flight has not arrived");
    }

    /// Waits until the server has passed the deadline of the command in flight and has answered another one.
    async fn is_released_for_good(&self) {
        eventually_async("releases are repeated until none is pending", async || {
            self.count("evalsha") > 1 && self.pending() == 0
        })
        .await;
    }
}

#[tokio::test]
async fn acquire_after_its_release_is_undone() {
    let in_flight = InFlight::with_a_late_acquire().await;
    in_flight.is_released_once().await;
    in_flight.proxy.deliver();
    assert_eq!(in_flight.count("set"), 1, "it arrived before its expiry, and ran");
    eventually("the key is gone", || !in_flight.server.exists(KEY));
    in_flight.is_released_for_good().await;
    assert!(!in_flight.server.exists(KEY));
}

#[tokio::test]
async fn acquire_after_expiry_stores_nothing() {
    let in_flight = InFlight::with_a_late_acquire().await;
    in_flight.is_released_for_good().await;
    in_flight.proxy.deliver();
    assert_eq!(in_flight.count("set"), 1, "it runs, and its expiry has passed");
    assert!(!in_flight.server.exists(KEY));
}

#[tokio::test]
async fn renewal_after_its_release_is_undone() {
    let in_flight = InFlight::with_a_late_renewal().await;
    in_flight.is_released_once().await;
    in_flight.proxy.deliver();
    assert_eq!(
        in_flight.count("set"),
        1,
        "it arrived within its deadline, and stored the key again"
    );
    eventually("the key is gone", || !in_flight.server.exists(KEY));
    in_flight.is_released_for_good().await;
    assert!(!in_flight.server.exists(KEY));
}

#[tokio::test]
async fn renewal_after_last_release_stores_nothing() {
    let in_flight = InFlight::with_a_late_renewal().await;
    in_flight.is_released_for_good().await;
    in_flight.proxy.deliver();
    assert_eq!(in_flight.count("set"), 0);
    assert!(!in_flight.server.exists(KEY));
}

#[tokio::test]
async fn renewal_after_its_validity_is_dropped() {
    // The validity ends long before two node timeouts have passed.
    let in_flight = in_flight(Redlock::builder().node_timeout(TIMEOUT)).await;
    let lock = in_flight.redlock.lock("a").max_hold(TIMEOUT / 4).await.unwrap();
    in_flight.server.cli(&["DEL", KEY]);
    in_flight.server.cli(&["CONFIG", "RESETSTAT"]);
    in_flight.proxy.hold();
    let held = async {
        in_flight.is_held().await;
        lock.lost().await;
        // The lock is lost before the end of its validity.
        // The servers and the client count real time; no event marks the end of the validity.
        tokio::time::sleep(LONGEST_LEAD).await;
    };
    let (extended, ()) = in_time(async { tokio::join!(lock.extend(), held) }).await;
    assert!(extended.is_err());
    in_flight.proxy.deliver();
    assert_eq!(in_flight.count("set"), 0);
}

#[tokio::test]
async fn every_attempt_has_its_own_nonce() {
    let in_flight = in_flight(Redlock::builder().node_timeout(TIMEOUT)).await;
    in_flight.server.set(KEY, "somebody's");
    in_flight.server.set_config("slowlog-max-len", "1000");
    in_flight.server.set_config("slowlog-log-slower-than", "0");
    let attempts = 5;
    let result = in_flight.redlock.lock("a").wait(HANG_GUARD).max_attempts(attempts).await;
    assert!(matches!(result, Err(LockError::Held { .. })), "{result:?}");
    let acquires: Vec<_> = slow_log(&in_flight.server)
        .into_iter()
        .filter(|args| {
            args[0] == "EVALSHA" && args.iter().any(|arg| arg.starts_with("redlock:fences:"))
        })
        .collect();
    let nonce = |args: &Vec<String>| {
        let begun = args.iter().filter_map(|arg| Some(arg.split_once(' ')?.0.to_owned()));
        let is_nonce =
            |text: &String| text.len() == 32 && text.chars().all(|c| c.is_ascii_hexdigit());
        begun.into_iter().find(is_nonce).expect("a nonce")
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
