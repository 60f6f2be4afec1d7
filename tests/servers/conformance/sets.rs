//! Several names, locked all or none.

use super::contender::{EXTENDED, released};
use super::{Subject, assert_held, fence_of, granted, now_token};

on_both! {
    set_with_free_names_is_granted
    partly_held_set_stores_nothing
    overlapping_set_is_refused
    greatest_fence_applies_to_every_name
    refused_set_returns_unmoved_fence
    sixteen_longest_names_are_locked
    same_nonce_gets_the_set_again
}

async fn set_with_free_names_is_granted(subject: &Subject) {
    let pair = subject.contender_named("pair", ["a", "b"]);
    assert_eq!(pair.acquire().await, granted(false, 0));
    assert_held(&subject.contender("a").acquire().await, "pair");
    assert_held(&subject.contender("b").acquire().await, "pair");
    assert_eq!(subject.contender("c").acquire().await, granted(false, 0));
}

async fn partly_held_set_stores_nothing(subject: &Subject) {
    for taken in ["a", "b", "c"] {
        let holder = subject.contender_named("holder", taken);
        assert_eq!(holder.acquire().await, granted(false, 0));
        let trio = subject.contender(["a", "b", "c"]);
        assert_held(&trio.acquire().await, "holder");
        for free in ["a", "b", "c"].into_iter().filter(|name| *name != taken) {
            let other = subject.contender(free);
            assert_eq!(other.acquire().await, granted(false, 0), "{free} beside {taken}");
            other.release().await.unwrap();
        }
        holder.release().await.unwrap();
    }
}

async fn overlapping_set_is_refused(subject: &Subject) {
    let left = subject.contender_named("left", ["a", "b"]);
    assert_eq!(left.acquire().await, granted(false, 0));
    let right = subject.contender(["b", "c"]);
    assert_held(&right.acquire().await, "left");
    left.release().await.unwrap();
    assert_eq!(right.acquire().await, granted(false, 0));
}

async fn greatest_fence_applies_to_every_name(subject: &Subject) {
    let t = now_token();
    give_and_take(subject, "a", t).await;
    give_and_take(subject, "b", t + 1000).await;
    let trio = subject.contender(["a", "b", "c"]);
    assert_eq!(trio.acquire_with(t + 1255).await, granted(false, t + 1255));
    assert_eq!(fences(subject).await, [t + 255, t + 1255, 0]);
    trio.release().await.unwrap();
    let trio = subject.contender(["c", "b", "a"]);
    assert_eq!(trio.acquire_with(t + 1256).await, granted(true, t + 1255));
    assert_eq!(fences(subject).await, [t + 1511; 3]);
}

async fn refused_set_returns_unmoved_fence(subject: &Subject) {
    let t = now_token();
    give_and_take(subject, "a", t).await;
    let holder = subject.contender_named("holder", "b");
    assert_eq!(holder.acquire().await, granted(false, 0));
    let response = subject.contender(["a", "b", "c"]).acquire_with(t + 256).await;
    assert_held(&response, "holder");
    assert_eq!(fence_of(&response), t + 255);
    assert_eq!(fences(subject).await, [t + 255, 0, 0]);
}

async fn sixteen_longest_names_are_locked(subject: &Subject) {
    let names: Vec<String> = (0..16).map(|i| format!("{i:0>512}")).collect();
    let all = subject.contender_named("all", names.clone());
    let t = now_token();
    assert_eq!(all.acquire_with(t).await, granted(true, 0));
    for name in &names {
        let response = subject.contender(name.as_str()).acquire().await;
        assert_held(&response, "all");
        assert_eq!(fence_of(&response), t + 255);
    }
    assert_eq!(all.extend().await, EXTENDED);
    assert_eq!(all.release().await, released(true, true));
}

async fn same_nonce_gets_the_set_again(subject: &Subject) {
    let pair = subject.contender(["a", "b"]);
    assert_eq!(pair.acquire().await, granted(false, 0));
    assert_eq!(pair.acquire().await, granted(false, 0));
    assert_eq!(pair.release().await, released(true, false));
}

async fn give_and_take(subject: &Subject, name: &str, token: u64) {
    let contender = subject.contender(name);
    assert_eq!(contender.acquire_with(token).await, granted(true, 0));
    contender.release().await.unwrap();
}

/// The fences of "a", "b" and "c", held or not.
async fn fences(subject: &Subject) -> [u64; 3] {
    let mut fences = [0; 3];
    for (fence, name) in fences.iter_mut().zip(["a", "b", "c"]) {
        let contender = subject.contender(name);
        *fence = fence_of(&contender.acquire().await);
        contender.release().await.unwrap();
    }
    fences
}
