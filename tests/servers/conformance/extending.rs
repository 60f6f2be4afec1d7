//! Renewing a lease.

use std::time::Duration;

use tower_redlock::error::Reason;
use tower_redlock::node::{Answer, ExtendedAnswer, HeldAnswer, ReleasedAnswer};

use super::contender::{SLACK, TTL};
use super::{Subject, assert_held, fence_of, granted, now_token};
use crate::support::eventually_async;

on_both! {
    extension_renews_the_ttl
    extension_recreates_a_lost_key
    extension_of_taken_key_is_refused
    extension_leaves_the_fence
    sets_extend_all_or_none
}

async fn extension_renews_the_ttl(subject: &Subject) {
    let contender = subject.contender_named("alice", "a");
    assert_eq!(contender.acquire_for(TTL / 6).await, granted(false, 0));
    assert_eq!(contender.extend().await, Ok(Answer::Extended(ExtendedAnswer::UNAWAITED)));
    let left = remaining(subject).await;
    assert!(left > TTL / 6 && left <= TTL, "{left:?}");
    // The TTL counts from now and is not added.
    assert_eq!(
        contender.extend_for(TTL / 6).await,
        Ok(Answer::Extended(ExtendedAnswer::UNAWAITED))
    );
    let left = remaining(subject).await;
    assert!(left <= TTL / 6, "{left:?}");
}

async fn extension_recreates_a_lost_key(subject: &Subject) {
    let contender = subject.contender_named("alice", "a");
    assert_eq!(contender.acquire_for(Duration::from_millis(20)).await, granted(false, 0));
    eventually_async("the key expires", async || contender.raise(0).await == Err(Reason::KeyGone))
        .await;
    assert_eq!(contender.extend().await, Ok(Answer::Extended(ExtendedAnswer::UNAWAITED)));
    assert_held(&subject.contender("a").acquire().await, "alice");
    assert_eq!(contender.release().await, Ok(Answer::Released(ReleasedAnswer::new(true, true))));
}

async fn extension_of_taken_key_is_refused(subject: &Subject) {
    let (ours, theirs) = (subject.contender("a"), subject.contender_named("they", "a"));
    assert_eq!(theirs.acquire_for(TTL / 2).await, granted(false, 0));
    assert_held(&ours.extend().await, "they");
    let left = remaining(subject).await;
    assert!(left <= TTL / 2 + SLACK, "another client's extension renewed the key: {left:?}");
    assert_eq!(theirs.release().await, Ok(Answer::Released(ReleasedAnswer::new(true, true))));
}

async fn extension_leaves_the_fence(subject: &Subject) {
    let t = now_token();
    let contender = subject.contender("a");
    assert_eq!(contender.acquire_with(t).await, granted(true, 0));
    assert_eq!(contender.extend().await, Ok(Answer::Extended(ExtendedAnswer::UNAWAITED)));
    assert_eq!(fence_of(&subject.contender("a").acquire().await), t + 255);
    contender.release().await.unwrap();
    assert_eq!(contender.extend().await, Ok(Answer::Extended(ExtendedAnswer::UNAWAITED)));
    assert_eq!(fence_of(&subject.contender("a").acquire().await), t + 255);
}

async fn sets_extend_all_or_none(subject: &Subject) {
    let pair = subject.contender_named("pair", ["a", "b"]);
    assert_eq!(pair.extend().await, Ok(Answer::Extended(ExtendedAnswer::UNAWAITED)));
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
