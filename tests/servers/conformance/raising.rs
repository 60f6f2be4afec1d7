//! Raising the fencing token of a lease, and renewing the lease.

use std::time::Duration;

use tower_redlock::{
    error::Reason,
    node::{Answer, HeldAnswer},
};

use super::{
    Subject, assert_held,
    contender::{EXTENDED, SLACK, TTL, released},
    fence_of, granted, now_token, raised,
};
use crate::fixture::eventually_async;

on_both! {
    raise_stores_end_of_block
    raise_below_fence_changes_nothing
    a_raise_needs_the_key
    raise_after_expiry_finds_no_key
    raise_beyond_a_minute_is_refused
    raise_keeps_owner_and_ttl
    raise_needs_every_key_of_set
    extension_renews_the_ttl
    extension_recreates_a_lost_key
    extension_of_taken_key_is_refused
    extension_leaves_the_fence
    sets_extend_all_or_none
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
    assert_eq!(contender.release().await, released(true, true));
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

async fn extension_renews_the_ttl(subject: &Subject) {
    let contender = subject.contender_named("alice", "a");
    assert_eq!(contender.acquire_for(TTL / 6).await, granted(false, 0));
    assert_eq!(contender.extend().await, EXTENDED);
    let left = remaining(subject).await;
    assert!(left > TTL / 6 && left <= TTL, "{left:?}");
    // The TTL counts from now and is not added.
    assert_eq!(contender.extend_for(TTL / 6).await, EXTENDED);
    let left = remaining(subject).await;
    assert!(left <= TTL / 6, "{left:?}");
}

async fn extension_recreates_a_lost_key(subject: &Subject) {
    let contender = subject.contender_named("alice", "a");
    assert_eq!(contender.acquire_for(Duration::from_millis(20)).await, granted(false, 0));
    eventually_async("the key expires", async || contender.raise(0).await == Err(Reason::KeyGone))
        .await;
    assert_eq!(contender.extend().await, EXTENDED);
    assert_held(&subject.contender("a").acquire().await, "alice");
    assert_eq!(contender.release().await, released(true, true));
}

async fn extension_of_taken_key_is_refused(subject: &Subject) {
    let (ours, theirs) = (subject.contender("a"), subject.contender_named("they", "a"));
    assert_eq!(theirs.acquire_for(TTL / 2).await, granted(false, 0));
    assert_held(&ours.extend().await, "they");
    let left = remaining(subject).await;
    assert!(left <= TTL / 2 + SLACK, "another client's extension renewed the key: {left:?}");
    assert_eq!(theirs.release().await, released(true, true));
}

async fn extension_leaves_the_fence(subject: &Subject) {
    let t = now_token();
    let contender = subject.contender("a");
    assert_eq!(contender.acquire_with(t).await, granted(true, 0));
    assert_eq!(contender.extend().await, EXTENDED);
    assert_eq!(fence_of(&subject.contender("a").acquire().await), t + 255);
    contender.release().await.unwrap();
    assert_eq!(contender.extend().await, EXTENDED);
    assert_eq!(fence_of(&subject.contender("a").acquire().await), t + 255);
}

async fn sets_extend_all_or_none(subject: &Subject) {
    let pair = subject.contender_named("pair", ["a", "b"]);
    assert_eq!(pair.extend().await, EXTENDED);
    assert_held(&subject.contender("a").acquire().await, "pair");
    assert_held(&subject.contender("b").acquire().await, "pair");
    pair.release().await.unwrap();
    let single = subject.contender_named("single", "b");
    assert_eq!(single.acquire().await, granted(false, 0));
    assert_held(&pair.extend().await, "single");
    assert_eq!(subject.contender("a").acquire().await, granted(false, 0));
}

/// The remaining TTL of "a", as reported to another lease.
async fn remaining(subject: &Subject) -> Duration {
    match subject.contender("a").acquire().await {
        Ok(Answer::Held(HeldAnswer { remaining: Some(left), .. })) => left,
        other => panic!("expected a refusal, got {other:?}"),
    }
}
