//! The fencing token's way through a node.

use tower_redlock::error::Reason;
use tower_redlock::node::{Answer, ReleasedAnswer};

use super::{Subject, assert_held, fence_of, granted, now_token};

on_both! {
    a_token_above_the_fence_is_accepted_and_the_end_of_its_block_becomes_the_fence
    a_token_at_or_below_the_fence_is_granted_and_not_accepted
    a_refusal_tells_the_fence_and_does_not_move_it
    a_lease_without_a_token_is_granted_and_does_not_move_the_fence
    a_second_delivery_is_granted_behind_its_own_block
    a_token_more_than_a_minute_ahead_is_refused_and_nothing_is_stored
    a_token_less_than_a_minute_ahead_is_taken
    fences_outlive_the_keys
}

async fn a_token_above_the_fence_is_accepted_and_the_end_of_its_block_becomes_the_fence(
    subject: &Subject,
) {
    let t = now_token();
    assert_eq!(take(subject, t).await, granted(true, 0));
    assert_eq!(take(subject, t + 256).await, granted(true, t + 255));
    assert_eq!(take(subject, t + 1000).await, granted(true, t + 511));
    assert_eq!(take(subject, 0).await, granted(false, t + 1255));
}

async fn a_token_at_or_below_the_fence_is_granted_and_not_accepted(subject: &Subject) {
    let t = now_token();
    assert_eq!(take(subject, t).await, granted(true, 0));
    for token in [1, t - 1, t, t + 1, t + 254, t + 255] {
        assert_eq!(take(subject, token).await, granted(false, t + 255), "token t{:+}", token - t);
    }
    assert_eq!(take(subject, t + 256).await, granted(true, t + 255));
}

async fn a_refusal_tells_the_fence_and_does_not_move_it(subject: &Subject) {
    let t = now_token();
    let holder = subject.party_named("holder", "a");
    assert_eq!(holder.acquire_with(t).await, granted(true, 0));
    for token in [0, t + 256, t + 9000] {
        let said = subject.party("a").acquire_with(token).await;
        assert_held(&said, "holder");
        assert_eq!(fence_of(&said), t + 255);
    }
    holder.release().await.unwrap();
    assert_eq!(take(subject, t + 256).await, granted(true, t + 255));
}

async fn a_lease_without_a_token_is_granted_and_does_not_move_the_fence(subject: &Subject) {
    assert_eq!(take(subject, 0).await, granted(false, 0));
    assert_eq!(take(subject, 1).await, granted(true, 0));
    assert_eq!(take(subject, 0).await, granted(false, 256));
    assert_eq!(take(subject, 257).await, granted(true, 256));
}

async fn a_second_delivery_is_granted_behind_its_own_block(subject: &Subject) {
    let t = now_token();
    let party = subject.party("a");
    assert_eq!(party.acquire_with(t).await, granted(true, 0));
    assert_eq!(party.acquire_with(t).await, granted(false, t + 255));
}

async fn a_token_more_than_a_minute_ahead_is_refused_and_nothing_is_stored(subject: &Subject) {
    let far = now_token() + 61_000_000 + 1_000_000;
    let party = subject.party("a");
    for token in [far, (1 << 53) - 256, u64::MAX >> 11] {
        assert_eq!(party.acquire_with(token).await, Err(Reason::TokenAhead));
    }
    assert_eq!(party.release().await, Ok(Answer::Released(ReleasedAnswer::new(false, false))));
    assert_eq!(take(subject, 1).await, granted(true, 0));
    // Also where another holds the key: the refusal is about the token.
    assert_eq!(subject.party("a").acquire().await, granted(false, 256));
    assert_eq!(party.acquire_with(far).await, Err(Reason::TokenAhead));
}

async fn a_token_less_than_a_minute_ahead_is_taken(subject: &Subject) {
    let near = now_token() + 55_000_000;
    assert_eq!(take(subject, near).await, granted(true, 0));
}

async fn fences_outlive_the_keys(subject: &Subject) {
    let t = now_token();
    let party = subject.party("a");
    assert_eq!(party.acquire_with(t).await, granted(true, 0));
    party.release().await.unwrap();
    party.release().await.unwrap();
    assert_eq!(take(subject, t).await, granted(false, t + 255));
}

/// A stranger's attempt on "a", given back.
async fn take(subject: &Subject, token: u64) -> super::party::Said {
    let party = subject.party("a");
    let said = party.acquire_with(token).await;
    assert_eq!(
        party.release().await,
        Ok(Answer::Released(ReleasedAnswer::new(said.is_ok(), false)))
    );
    said
}
