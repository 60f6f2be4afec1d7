//! Grants and refusals.

use std::time::Duration;

use tower_redlock::error::Reason;
use tower_redlock::node::Answer;

use crate::fixture::eventually_async;

use super::contender::TTL;
use super::contender::released;
use super::{Subject, assert_held, granted, raised};

on_both! {
    granted_name_is_held_against_others
    refusal_returns_the_owner_unchanged
    the_same_nonce_is_granted_again
    an_expired_key_is_free
    similar_names_lock_separately
    lease_operations_keep_their_order
}

async fn granted_name_is_held_against_others(subject: &Subject) {
    let (alice, bob) = (subject.contender_named("alice", "a"), subject.contender_named("bob", "a"));
    assert_eq!(alice.acquire().await, granted(false, 0));
    assert_held(&bob.acquire().await, "alice");
    assert_held(&bob.acquire().await, "alice");
    assert_eq!(subject.contender("b").acquire().await, granted(false, 0));
}

async fn refusal_returns_the_owner_unchanged(subject: &Subject) {
    let long = "o".repeat(128);
    let owners =
        ["app@host:42", "with two  spaces", " ", "7 8 9", "Kontó ≤ 漢字", "a\"b'c\\", &long];
    for owner in owners {
        let name = format!("of {owner}");
        assert_eq!(subject.contender_named(owner, &*name).acquire().await, granted(false, 0));
        assert_held(&subject.contender(&*name).acquire().await, owner);
    }
}

async fn the_same_nonce_is_granted_again(subject: &Subject) {
    let alice = subject.contender_named("alice", "a");
    assert_eq!(alice.acquire().await, granted(false, 0));
    assert_eq!(alice.acquire().await, granted(false, 0));
    assert_held(&subject.contender("a").acquire().await, "alice");
    assert_eq!(alice.release().await, released(true, true));
    assert_eq!(subject.contender("a").acquire().await, granted(false, 0));
}

async fn an_expired_key_is_free(subject: &Subject) {
    let (brief, next) = (subject.contender("a"), subject.contender_named("next", "a"));
    assert_eq!(brief.acquire_for(Duration::from_millis(20)).await, granted(false, 0));
    eventually_async("the key expires", async || {
        matches!(next.acquire().await, Ok(Answer::Granted(_)))
    })
    .await;
    assert_eq!(brief.release().await, released(false, false));
    assert_held(&brief.extend().await, "next");
}

async fn similar_names_lock_separately(subject: &Subject) {
    let long = "x".repeat(512);
    let almost = format!("{}y", "x".repeat(511));
    let wide = "漢".repeat(170);
    let names = [
        " ",
        "  ",
        "two words",
        "a",
        "A",
        "á",
        "a\u{301}",
        "*",
        "?",
        "[a]",
        "{a}",
        "a:b",
        ":",
        "meta",
        "%61",
        "\"quoted\"",
        "\\",
        "0",
        "-1",
        "redlock:lock:a",
        "🔒",
        "\u{200b}",
        &long,
        &almost,
        &wide,
    ];
    for name in names {
        let response = subject.contender_named(name, name).acquire().await;
        assert_eq!(response, granted(false, 0), "{name:?}");
    }
    for name in names {
        assert_held(&subject.contender(name).acquire().await, name);
    }
}

async fn lease_operations_keep_their_order(subject: &Subject) {
    let (alice, bob) = (subject.contender("a"), subject.contender("b"));
    for _ in 0..100 {
        for contender in [&alice, &bob] {
            let answers = [
                contender.ask(contender.acquire_op(TTL, 0)),
                contender.ask(contender.release_op()),
                contender.ask(contender.release_op()),
                contender.ask(contender.raise_op(0)),
                contender.ask(contender.acquire_op(TTL, 0)),
                contender.ask(contender.raise_op(0)),
                contender.ask(contender.release_op()),
            ];
            let [first, back, nothing, gone, second, there, end] = answers;
            assert_eq!(first.await, granted(false, 0));
            assert_eq!(back.await, released(true, false));
            assert_eq!(nothing.await, released(false, false));
            assert_eq!(gone.await, Err(Reason::KeyGone));
            assert_eq!(second.await, granted(false, 0));
            assert_eq!(there.await, raised(false, 0));
            assert_eq!(end.await, released(true, false));
        }
    }
}
