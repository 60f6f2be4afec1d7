//! Keys on a server: those of this crate, and those of other programs.

use tower_redlock::Redlock;
use tower_redlock::node::{Answer, HeldAnswer};

use crate::fixture::{Resp, guard::fences_key, over};

use super::contender::TTL;
use super::contender::{EXTENDED, released};
use super::{Subject, assert_held, granted, now_token, raised};

#[tokio::test]
async fn foreign_key_without_ttl_is_respected() {
    let subject = Subject::server().await;
    let long = "z".repeat(100_000);

    for value in ["", "x", "0123456789abcdef0123456789abcdef", "not ours at all", "a b c d", &long]
    {
        subject.redis().set("redlock:lock:a", value);
        let contender = subject.contender("a");
        let expected = Ok(Answer::Held(HeldAnswer::new(None, None, 0)));
        assert_eq!(contender.acquire().await, expected, "{value:.40}");
        assert_eq!(contender.extend().await, expected, "{value:.40}");
        assert_eq!(contender.release().await, released(false, false));
        assert_eq!(subject.redis().get("redlock:lock:a").unwrap(), value.as_bytes());
    }
}

#[tokio::test]
async fn foreign_type_is_left_alone() {
    let subject = Subject::server().await;
    subject.redis().cli(&["RPUSH", "redlock:lock:a", "item"]);
    let contender = subject.contender("a");
    for response in [contender.acquire().await, contender.extend().await, contender.release().await]
    {
        assert!(!matches!(response, Ok(Answer::Granted(_) | Answer::Extended(_))), "{response:?}");
    }
    assert_eq!(subject.redis().cli(&["LLEN", "redlock:lock:a"]), Resp::Int(1));
}

#[tokio::test]
async fn key_shows_owner_and_time() {
    let subject = Subject::server().await;
    let t = now_token();
    let contender = subject.contender_named("app@host:7", "two words");
    assert_eq!(contender.acquire_with(t).await, granted(true, 0));
    let stored = || {
        let value = subject.redis().get("redlock:lock:two words").unwrap();
        String::from_utf8(value).unwrap()
    };
    let nonce = contender.hex_nonce();
    assert_eq!(stored(), format!("{nonce} {t} 1700000000000 app@host:7"));
    assert_eq!(contender.raise(t + 256).await, raised(true, t + 255));
    assert_eq!(stored(), format!("{nonce} {} 1700000000000 app@host:7", t + 256));
    let time_to_live = subject.redis().pttl("redlock:lock:two words");
    assert!((1..=65_000).contains(&time_to_live), "{time_to_live}");
}

#[tokio::test]
async fn fences_stay_in_one_key() {
    let subject = Subject::server().await;
    let redis = subject.redis();
    let fences = fences_key(redis);
    assert_eq!(redis.cli(&["ZCARD", &fences]), Resp::Int(1_024));
    for i in 0..200 {
        let contender = subject.contender(&*format!("n{i}"));
        contender.acquire_with(now_token()).await.unwrap();
        contender.release().await.unwrap();
    }
    assert_eq!(redis.cli(&["ZCARD", &fences]), Resp::Int(1_024));
    assert_eq!((redis.pttl("redlock:meta"), redis.pttl(&fences)), (-1, -1));
    let mut keys = redis.keys("*");
    keys.sort();
    assert_eq!(keys, [fences, "redlock:meta".to_owned()]);
}

#[tokio::test]
async fn own_key_regains_its_ttl() {
    let subject = Subject::server().await;
    let contender = subject.contender_named("alice", "a");
    assert_eq!(contender.acquire().await, granted(false, 0));
    subject.redis().cli(&["PERSIST", "redlock:lock:a"]);
    assert_eq!(contender.extend().await, EXTENDED);
    assert_held(&subject.contender("a").acquire().await, "alice");
}

#[tokio::test]
async fn prefixes_separate_locks() {
    let subject = Subject::server().await;
    let outer = manager(&subject, "app").await;
    let inner = manager(&subject, "app:x").await;
    let held = outer.lock("x:lock:y").await.unwrap();
    inner.lock("y").await.expect("another prefix, so another lock").release().await.unwrap();
    held.release().await.unwrap();
    // Fences are separate as well.
    outer.lock("x:meta").await.expect("a name like any other").release().await.unwrap();
}

/// A manager with a long timeout for each answer.
async fn manager(subject: &Subject, prefix: &str) -> Redlock {
    let builder = over(Redlock::builder(), [subject.redis().plain_url()]).key_prefix(prefix);
    let manager = builder.ttl(TTL).node_timeout(TTL / 10).build().unwrap();
    manager.ready().await.unwrap();
    manager
}
