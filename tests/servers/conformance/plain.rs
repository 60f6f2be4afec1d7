//! Acquires by plain commands, with a single token.

use tower_redlock::node::{Answer, HeldAnswer};

use crate::fixture::{RedisServer, Resp, acl, guard::fences_key};

use super::contender::released;
use super::{Subject, assert_held, fence_of, granted, now_token, raised};

/// A server that has run a script on its connection.
async fn serving() -> Subject {
    let subject = Subject::server().await;
    let first = subject.contender("first");
    assert!(matches!(first.acquire().await, Ok(Answer::Granted(_))));
    first.release().await.unwrap();
    subject
}

#[tokio::test]
async fn free_name_needs_no_script() {
    let subject = serving().await;
    let (contender, t) = (subject.contender_named("me", "a"), now_token());
    let before = subject.redis().calls("evalsha");
    assert_eq!(contender.acquire_free(t).await, granted(true, 0));
    assert_eq!(subject.redis().calls("evalsha"), before);
    let value = subject.redis().get("redlock:lock:a").unwrap();
    let expected = format!("{} {t} 1700000000000 me", contender.hex_nonce());
    assert_eq!(String::from_utf8(value).unwrap(), expected);
    assert_held(&subject.contender("a").acquire().await, "me");
    assert_eq!(contender.raise(t + 1).await, raised(true, t));
    assert!(matches!(contender.extend().await, Ok(Answer::Extended(_))));
    assert_eq!(contender.release().await, released(true, true));
}

#[tokio::test]
async fn token_has_to_be_above_the_fence() {
    let subject = serving().await;
    let t = now_token();
    let ask = async |token| {
        let contender = subject.contender("a");
        let response = contender.acquire_free(token).await;
        assert_eq!(contender.release().await, released(true, false), "it is held in any case");
        response
    };
    assert_eq!(ask(t).await, granted(true, 0));
    for token in [1, t - 1, t] {
        assert_eq!(ask(token).await, granted(false, t), "token t{:+}", token.cast_signed());
    }
    assert_eq!(ask(t + 1).await, granted(true, 0));
    let block = subject.contender("a");
    assert_eq!(block.acquire_with(t + 10).await, granted(true, 0));
    block.release().await.unwrap();
    for token in [t + 10, t + 265] {
        assert_eq!(ask(token).await, granted(false, t + 265), "within a block");
    }
    assert_eq!(ask(t + 266).await, granted(true, 0));
}

/// The script finds the holder and leaves the mark of the waiter. The plain commands have raised the fence.
#[tokio::test]
async fn held_name_is_refused_by_the_script() {
    let subject = serving().await;
    let (holder, t) = (subject.contender_named("holder", "a"), now_token());
    assert_eq!(holder.acquire_free(t).await, granted(true, 0));
    let refused = subject.contender("a").acquire_free(t + 5).await;
    assert_held(&refused, "holder");
    assert_eq!(fence_of(&refused), t + 5);
    assert_eq!(holder.release().await, released(true, true), "a waiter left its mark");
}

#[tokio::test]
async fn same_nonce_is_granted_again() {
    let subject = serving().await;
    let (contender, t) = (subject.contender("a"), now_token());
    assert_eq!(contender.acquire_free(t).await, granted(true, 0));
    assert_eq!(contender.acquire_free(t).await, granted(false, t));
    assert_eq!(contender.release().await, released(true, false));
}

#[tokio::test]
async fn foreign_keys_are_respected() {
    let subject = serving().await;
    let (redis, t) = (subject.redis(), now_token());
    redis.set("redlock:lock:a", "by hand");

    let refused = subject.contender("a").acquire_free(t).await;

    assert_eq!(refused, Ok(Answer::Held(HeldAnswer::new(None, None, t))));
    redis.cli(&["RPUSH", "redlock:lock:b", "item"]);
    let of_list = subject.contender("b").acquire_free(t).await;
    assert!(!matches!(of_list, Ok(Answer::Granted(_))), "{of_list:?}");
    assert_eq!(redis.cli(&["LLEN", "redlock:lock:b"]), Resp::Int(1));
}

/// A shared lease is a key of another type.
#[tokio::test]
async fn shared_lease_is_respected() {
    let subject = serving().await;
    let (reader, t) = (subject.contender_named("reader", "a").shared(), now_token());
    assert!(matches!(reader.acquire_with(t).await, Ok(Answer::Granted(_))));
    assert_held(&subject.contender("a").acquire_free(t + 1).await, "reader");
}

/// Without the fences of its view a server does not vote. It is enrolled again, and the acquire is sent again.
#[tokio::test]
async fn lost_fences_are_restored_before_the_grant() {
    let subject = serving().await;
    let (redis, contender) = (subject.redis(), subject.contender("a"));
    redis.cli(&["DEL", &fences_key(redis)]);
    assert_eq!(contender.acquire_free(now_token()).await, granted(true, 0));
    assert_eq!(redis.cli(&["ZCARD", &fences_key(redis)]), Resp::Int(1_024));
    assert_eq!(contender.release().await, released(true, false));
}

/// Returns the server's command that compares and deletes, if it has one.
fn compares_and_deletes(server: &RedisServer) -> Option<&'static str> {
    ["delex", "delifeq"].into_iter().find(|command| {
        // The simulated server has no such question.
        let Resp::Array(known) = server.cli(&["COMMAND", "INFO", command]) else { return false };
        known.first().is_some_and(|info| matches!(info, Resp::Array(parts) if !parts.is_empty()))
    })
}

/// Without such a command, or where the user may not call it, the release is the script.
#[tokio::test]
async fn release_needs_no_script_if_server_compares() {
    for is_allowed in [true, false] {
        let subject = serving().await;
        let (redis, t) = (subject.redis(), now_token());
        let command = compares_and_deletes(redis).filter(|_| is_allowed);
        // The simulated server counts no commands.
        let counts = redis.info("commandstats", "cmdstat_hmget").is_some();
        let scripts = u64::from(command.is_none() && counts);
        if let Some(command) = command {
            redis.cli(&["ACL", "SETUSER", acl::USER, &format!("+{command}")]);
        }
        for round in 0..2 {
            let contender = subject.contender("a").free(t + round);
            assert_eq!(contender.acquire_free(t + round).await, granted(true, 0));
            let before = redis.calls("evalsha");
            assert_eq!(contender.release().await, released(true, false));
            assert_eq!(redis.calls("evalsha") - before, scripts);
            assert!(redis.get("redlock:lock:a").is_none());
        }
    }
}

/// What changes the value is released by the script.
#[tokio::test]
async fn changed_key_is_released_by_the_script() {
    let subject = serving().await;
    let t = now_token();
    let taken = async |token| {
        let contender = subject.contender("a").free(token);
        assert_eq!(contender.acquire_free(token).await, granted(true, 0));
        contender
    };
    let marked = taken(t).await;
    assert_held(&subject.contender("a").acquire().await, "someone");
    assert_eq!(marked.release().await, released(true, true), "a waiter is told");
    let higher = taken(t + 10).await;
    assert_eq!(higher.raise(t + 20).await, raised(true, t + 10));
    assert_eq!(higher.release().await, released(true, false));
    let gone = taken(t + 1_000).await;
    subject.redis().cli(&["DEL", "redlock:lock:a"]);
    assert_eq!(gone.release().await, released(false, false));
    let foreign = taken(t + 2_000).await;
    subject.redis().set("redlock:lock:a", "by hand");
    assert_eq!(foreign.release().await, released(false, false));
    assert_eq!(subject.redis().get("redlock:lock:a").unwrap(), b"by hand");
}
