//! URLs of one server.

use redis::{Client, cmd};

use crate::support::{Proxy, RedisServer};

/// Writes a key by a client that knows only the URL.
fn set(url: &str, key: &str) {
    let mut connection = Client::open(url).and_then(|client| client.get_connection());
    let connection = connection.as_mut().expect("the URL leads to a server");
    cmd("SET").arg(key).arg("1").exec(connection).expect("the key is set");
}

#[test]
fn all_urls_lead_to_same_server() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.addr());
    let urls = [server.url(), server.url_by_name(), server.url_of_database(0), proxy.url()];
    for (i, url) in urls.iter().enumerate() {
        assert!(!urls[..i].contains(url), "{url} twice");
        set(url, &format!("redlock:by:{i}"));
        assert_eq!(server.keys("*").len(), i + 1, "{url}");
    }
}

#[test]
fn databases_have_separate_keys() {
    let server = RedisServer::start();
    set(&server.url_of_database(3), "redlock:a");
    assert!(!server.exists("redlock:a"));
    assert!(server.info("keyspace", "db3").is_some());
}
