//! How a node handles fencing tokens.

use tower_redlock::error::Reason;

use super::contender::released;
use super::{Subject, assert_held, fence_of, granted, now_token};

on_both! {
    token_above_fence_moves_it
    token_below_fence_is_not_accepted
    refusal_returns_the_unmoved_fence
    lease_without_token_leaves_fence
    duplicate_acquire_is_below_its_block
    token_beyond_a_minute_is_refused
    token_within_a_minute_is_accepted
    fences_outlive_the_keys
}

async fn token_above_fence_moves_it(subject: &Subject) {
    let t = now_token();
    assert_eq!(take(subject, t).await, granted(true, 0));
    assert_eq!(take(subject, t + 256).await, granted(true, t + 255));
    assert_eq!(take(subject, t + 1000).await, granted(true, t + 511));
    assert_eq!(take(subject, 0).await, granted(false, t + 1255));
}

async fn token_below_fence_is_not_accepted(subject: &Subject) {
    let t = now_token();
    assert_eq!(take(subject, t).await, granted(true, 0));
    for token in [1, t - 1, t, t + 1, t + 254, t + 255] {
        assert_eq!(take(subject, token).await, granted(false, t + 255), "token t{:+}", token - t);
    }
    assert_eq!(take(subject, t + 256).await, granted(true, t + 255));
}

async fn refusal_returns_the_unmoved_fence(subject: &Subject) {
    let t = now_token();
    let holder = subject.contender_named("holder", "a");
    assert_eq!(holder.acquire_with(t).await, granted(true, 0));
    for token in [0, t + 256, t + 9000] {
        let response = subject.contender("a").acquire_with(token).await;
        assert_held(&response, "holder");
        assert_eq!(fence_of(&response), t + 255);
    }
    holder.release().await.unwrap();
    assert_eq!(take(subject, t + 256).await, granted(true, t + 255));
}

async fn lease_without_token_leaves_fence(subject: &Subject) {
    assert_eq!(take(subject, 0).await, granted(false, 0));
    assert_eq!(take(subject, 1).await, granted(true, 0));
    assert_eq!(take(subject, 0).await, granted(false, 256));
    assert_eq!(take(subject, 257).await, granted(true, 256));
}

async fn duplicate_acquire_is_below_its_block(subject: &Subject) {
    let t = now_token();
    let contender = subject.contender("a");
    assert_eq!(contender.acquire_with(t).await, granted(true, 0));
    assert_eq!(contender.acquire_with(t).await, granted(false, t + 255));
}

async fn token_beyond_a_minute_is_refused(subject: &Subject) {
    let far = now_token() + 61_000_000 + 1_000_000;
    let contender = subject.contender("a");
    for token in [far, (1 << 53) - 256, u64::MAX >> 11] {
        assert_eq!(contender.acquire_with(token).await, Err(Reason::TokenAhead));
    }
    assert_eq!(contender.release().await, released(false, false));
    assert_eq!(take(subject, 1).await, granted(true, 0));
    // The same while another lease holds the key: the token is refused.
    assert_eq!(subject.contender("a").acquire().await, granted(false, 256));
    assert_eq!(contender.acquire_with(far).await, Err(Reason::TokenAhead));
}

async fn token_within_a_minute_is_accepted(subject: &Subject) {
    let near = now_token() + 55_000_000;
    assert_eq!(take(subject, near).await, granted(true, 0));
}

async fn fences_outlive_the_keys(subject: &Subject) {
    let t = now_token();
    let contender = subject.contender("a");
    assert_eq!(contender.acquire_with(t).await, granted(true, 0));
    contender.release().await.unwrap();
    contender.release().await.unwrap();
    assert_eq!(take(subject, t).await, granted(false, t + 255));
}

/// An attempt of another client on "a", then released.
async fn take(subject: &Subject, token: u64) -> super::contender::Response {
    let contender = subject.contender("a");
    let response = contender.acquire_with(token).await;
    assert_eq!(contender.release().await, released(response.is_ok(), false));
    response
}
