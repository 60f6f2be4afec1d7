//! Raising the fencing token of a lease that was granted.

use std::time::Duration;

use tower_redlock::error::Reason;
use tower_redlock::node::{Answer, HeldAnswer, ReleasedAnswer};

use super::contender::{SLACK, TTL};
use super::{Subject, assert_held, fence_of, granted, now_token, raised};
use crate::support::eventually_async;

on_both! {
    raise_stores_end_of_block
    raise_below_fence_changes_nothing
    a_raise_needs_the_key
    raise_after_expiry_finds_no_key
    raise_beyond_a_minute_is_refused
    raise_keeps_owner_and_ttl
    raise_needs_every_key_of_set
}

async fn raise_stores_end_of_block(subject: &Subject) {
    let t = now_token();
    let contender = subject.contender("a");
    assert_eq!(contender.acquire_with(t).await, granted(true, 0));
    assert_eq!(contender.raise(t + 256).await, raised(true, t + 255));
    assert_eq!(contender.raise(t + 1000).await, raised(true, t + 511));
    let response = subject.contender("a").acquire().await;
    assert_eq!(fence_of(&response), t + 1255);
}

async fn raise_below_fence_changes_nothing(subject: &Subject) {
    let t = now_token();
    let contender = subject.contender("a");
    assert_eq!(contender.acquire_with(t).await, granted(true, 0));
    for token in [1, t, t + 255] {
        assert_eq!(contender.raise(token).await, raised(false, t + 255));
    }
    assert_eq!(contender.raise(t + 256).await, raised(true, t + 255));
    assert_eq!(contender.raise(t + 256).await, raised(false, t + 511));
}

async fn a_raise_needs_the_key(subject: &Subject) {
    let t = now_token();
    let (ours, theirs) = (subject.contender("a"), subject.contender_named("they", "a"));
    assert_eq!(ours.raise(t).await, Err(Reason::KeyGone));
    assert_eq!(theirs.acquire().await, granted(false, 0));
    assert_eq!(ours.raise(t).await, Err(Reason::KeyGone));
    theirs.release().await.unwrap();
    assert_eq!(theirs.raise(t).await, Err(Reason::KeyGone));
    assert_eq!(ours.acquire().await, granted(false, 0));
}

async fn raise_after_expiry_finds_no_key(subject: &Subject) {
    let contender = subject.contender("a");
    assert_eq!(contender.acquire_for(Duration::from_millis(20)).await, granted(false, 0));
    let t = now_token();
    let mut last = t;
    eventually_async("the key expires", async || {
        last += 256;
        match contender.raise(last).await {
            Err(Reason::KeyGone) => true,
            response => {
                assert_eq!(response.map(|answer| answer.fence() < last), Ok(true));
                false
            }
        }
    })
    .await;
    let fence = fence_of(&subject.contender("a").acquire().await);
    assert!(fence < last, "a refused raise moved the fence");
}

async fn raise_beyond_a_minute_is_refused(subject: &Subject) {
    let t = now_token();
    let contender = subject.contender("a");
    assert_eq!(contender.acquire_with(t).await, granted(true, 0));
    assert_eq!(contender.raise(t + 63_000_000).await, Err(Reason::TokenAhead));
    assert_eq!(contender.raise(t + 256).await, raised(true, t + 255));
}

async fn raise_keeps_owner_and_ttl(subject: &Subject) {
    let t = now_token();
    let contender = subject.contender_named("alice", "a");
    assert_eq!(contender.acquire_for(TTL / 2).await, granted(false, 0));
    assert_eq!(contender.raise(t).await, raised(true, 0));
    let response = subject.contender("a").acquire().await;
    assert_held(&response, "alice");
    let Ok(Answer::Held(HeldAnswer { remaining, .. })) = response else {
        unreachable!("asserted above")
    };
    assert!(remaining.is_some_and(|left| left <= TTL / 2 + SLACK), "{remaining:?}");
    assert_eq!(contender.release().await, Ok(Answer::Released(ReleasedAnswer::new(true, true))));
}

async fn raise_needs_every_key_of_set(subject: &Subject) {
    let t = now_token();
    let pair = subject.contender(["a", "b"]);
    assert_eq!(pair.acquire_with(t).await, granted(true, 0));
    assert_eq!(pair.raise(t + 256).await, raised(true, t + 255));
    let whole = subject.contender(["a", "c"]);
    assert_eq!(whole.raise(t + 512).await, Err(Reason::KeyGone));
    assert_eq!(fence_of(&subject.contender("a").acquire().await), t + 511);
    assert_eq!(fence_of(&subject.contender("b").acquire().await), t + 511);
    assert_eq!(fence_of(&subject.contender("c").acquire().await), 0);
}
