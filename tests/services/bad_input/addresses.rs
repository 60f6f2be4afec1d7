//! Servers given as types of the `redis` crate instead of URLs.

use redis::{Client, ConnectionAddr, IntoConnectionInfo, RedisConnectionInfo};
use tower_redlock::{Redlock, error::BuildError, node::redis::NodeAddress};

use crate::bad_input::recorder::build_error;

fn tcp(host: &str, login: RedisConnectionInfo) -> NodeAddress {
    let address = ConnectionAddr::Tcp(host.into(), 6379);
    address.into_connection_info().unwrap().set_redis_settings(login).into()
}

fn assert_refused(address: impl Into<NodeAddress>, reason: &str) {
    let error = build_error(|b| b.nodes([NodeAddress::from("redis://h1"), address.into()]));
    assert!(matches!(error, BuildError::InvalidUrl { number: 2, .. }), "{error:?}");
    let shown = format!("{error} {error:?}");
    assert!(shown.contains(reason) && !shown.contains("s3cret"), "{shown}");
}

#[test]
fn every_form_is_the_same_server() {
    let client = Client::open("redis://:s3cret@10.0.0.1/2").unwrap();
    let forms = [
        NodeAddress::from(&client),
        client.get_connection_info().into(),
        ConnectionAddr::Tcp("10.0.0.1".into(), 6379).into(),
        ("10.0.0.1", 6379).into(),
        String::from("redis://10.0.0.1").into(),
    ];

    for form in forms {
        let error = build_error(|b| b.nodes([NodeAddress::from("redis://10.0.0.1/3"), form]));
        assert!(matches!(error, BuildError::DuplicateNode { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn name_has_address_and_database_only() {
    let client = Client::open("redis://app:s3cret@10.0.0.1:7000/2").unwrap();
    let builder = Redlock::builder().nodes([client]);

    let shown = format!("{builder:?} {:?}", tcp("h", password("s3cret")));
    let redlock = builder.build().unwrap();

    assert_eq!(redlock.nodes()[0].name(), "10.0.0.1:7000/2");
    assert!(!shown.contains("s3cret"), "{shown}");
}

fn password(word: &str) -> RedisConnectionInfo {
    RedisConnectionInfo::default().set_password(word)
}

#[test]
fn unusable_addresses_are_refused() {
    assert_refused(("", 6379), "host");
    assert_refused(("u:s3cret@h", 6379), "host");
    assert_refused(tcp("h", password("s3cret").set_db(-1)), "database is negative");
    assert_refused(tcp("h", RedisConnectionInfo::default().set_username("app")), "no password");
    let path = ConnectionAddr::Unix("/run/a\nb.sock".into());
    assert_refused(path, "control character");
}

#[test]
fn unverified_tls_is_refused() {
    let address =
        ConnectionAddr::TcpTls { host: "h".into(), port: 6380, insecure: true, tls_params: None };
    assert_refused(address, "RedlockBuilder::tls");
}
