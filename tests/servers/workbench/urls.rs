use std::time::Duration;

use tower_redlock::{Redlock, Released};

use crate::support::{Proxy, RedisServer};

/// Never decides anything.
const AMPLE: Duration = Duration::from_secs(6);

/// Takes a lock by this URL alone, and checks something meanwhile.
async fn while_locked<T>(url: String, check: impl FnOnce() -> T) -> T {
    let builder = Redlock::builder().nodes([url]).ttl(AMPLE * 10).node_timeout(AMPLE);
    let redlock = builder.build().expect("a valid URL");
    redlock.ready().await;
    let lock = redlock.lock("x").await.expect("the server votes");
    let seen = check();
    assert!(matches!(lock.release().await, Ok(Released::Released)));
    seen
}

#[tokio::test]
async fn all_urls_lead_to_the_same_server() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.addr());
    let urls = [server.url(), server.url_by_name(), server.url_of_database(0), proxy.url()];
    for (i, url) in urls.iter().enumerate() {
        assert!(!urls[..i].contains(url), "{url} twice");
        assert!(while_locked(url.clone(), || server.exists("redlock:lock:x")).await, "{url}");
    }
}

#[tokio::test]
async fn another_database_has_keys_of_its_own() {
    let server = RedisServer::start();
    let url = server.url_of_database(3);
    let seen = while_locked(url, || {
        (server.exists("redlock:lock:x"), server.info("keyspace", "db3").is_some())
    });
    assert_eq!(seen.await, (false, true));
}
