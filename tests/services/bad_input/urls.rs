//! URLs and credentials of servers.

use tower_redlock::{
    Redlock,
    error::BuildError,
    node::redis::{AuthToken, Credentials},
};

use crate::bad_input::recorder::{Recorder, build_error};

#[test]
fn malformed_urls_hide_the_password() {
    let urls = [
        "",
        "localhost",
        "localhost:6379",
        "http://h",
        "redis://",
        "redis://:s3cret@",
        "redis://default:s3cret",
        "redis://h:port",
        "redis://u:s3cret@h:65536",
        "redis://:s3cret@h/database",
        "redis://:s3cret@h/-1",
        "redis://user@h",
        "redis://u:s3cret@[::1",
        "u:s3cret@h",
        "redis:/u:s3cret@h",
        "redis://u:s3/cret@h",
        "redis://u:s3cret@h@",
        "redis+unix://",
        "redis://u:s3cret@h/0?protocol=9",
        "postgres://u:s3cret@h",
        "redis+sentinel://:s3cret@a,b",
        "redis+sentinel://:s3cret@a,b/",
        "redis+sentinel://:s3cret@a,b/locks of s3",
        "redis+sentinel://:s3cret@a,,b/locks",
        "redis+sentinel://:s3cret@a:x/locks",
        "redis+sentinel://a/locks/x?sentinel_pass=s3cret",
        "redis+sentinel://a/locks?sentinel_user=s3cret",
        "redis+sentinel://a/locks?sentinel=s3cret",
        "redis+sentinel://a/locks?hosts=s3cret*",
        "redis+cluster://a?hosts=",
        "redis+cluster://:s3cret@",
        "redis+cluster://:s3cret@a/1",
        "redis+cluster://:s3cret@a?db=1",
        "redis+cluster://a,b:s3cret",
        "redis+unix:///run/redis.sock?db=x&pass=s3cret",
        "redis+unix:///run/redis.sock?user=app&db=-1&pass=s3cret",
        "redis+unix:///run/redis.sock?user=app&protocol=9&pass=s3cret",
    ];
    urls.into_iter().for_each(assert_refused_without_password);
}

fn assert_refused_without_password(url: &str) {
    let error = build_error(|b| b.nodes(["redis://10.0.0.1", url]));
    assert!(matches!(error, BuildError::InvalidUrl { .. }), "{url:?}: {error:?}");
    let shown = format!("{error} {error:?}");
    assert!(!shown.contains("s3"), "{shown}");
}

#[test]
fn one_server_is_not_taken_twice() {
    let pairs = [
        ["redis://10.0.0.1", "redis://10.0.0.1"],
        ["redis://10.0.0.1", "redis://10.0.0.1:6379"],
        ["redis://10.0.0.1/0", "redis://10.0.0.1/1"],
        ["redis://:s3cret@10.0.0.1", "redis://app:s3cret@10.0.0.1/2"],
        ["redis+unix:///run/a.sock", "redis+unix:///run/a.sock?db=3"],
        ["redis://[::1]", "redis://[0:0:0:0:0:0:0:1]"],
        ["redis://h.example", "redis://H.EXAMPLE"],
        ["redis+sentinel://a,b/locks", "redis+sentinel://b:26379,A/locks/3"],
        ["redis+cluster://a,b", "redis+cluster://:s3cret@b:6379,a"],
    ];
    pairs.into_iter().for_each(assert_duplicate);
}

fn assert_duplicate(urls: [&str; 2]) {
    let error = build_error(|b| b.nodes(urls));
    assert!(matches!(error, BuildError::DuplicateNode { .. }), "{urls:?}: {error:?}");
    assert!(error.to_string().contains("twice"), "{error}");
    assert!(!error.to_string().contains("s3cret"), "{error}");
}

#[tokio::test]
async fn passwords_are_never_shown() {
    let credentials = Credentials::new("app", "s3cret");
    let token = AuthToken::new("app", "s3cret");
    let tokens = Credentials::callback(|| async { Ok(AuthToken::new("app", "s3cret")) });

    assert!(!format!("{credentials:?} {token:?} {tokens:?}").contains("s3cret"));

    let recorder = Recorder::default();
    let builder = Redlock::builder()
        .nodes(["redis://u:s3cret@h1", "redis://:s3cret@h2/3", "redis+unix:///s?pass=s3cret"])
        .credentials(credentials)
        .connector(recorder.clone());

    assert!(!format!("{builder:?}").contains("s3cret"));

    let redlock = builder.build().unwrap();
    let error = redlock.lock("a").await.unwrap_err();
    let nodes: Vec<_> = redlock.nodes().iter().map(|node| node.name()).collect();
    let shown = format!("{redlock:?} {:?} {nodes:?} {error} {error:?}", redlock.health());

    assert!(!shown.contains("s3cret"), "{shown}");
    assert!(shown.contains("h2:6379/3"), "{shown}");
}
