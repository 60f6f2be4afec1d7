//! Subscribers are notified of a release if a waiter was refused before.

use tower_redlock::node::{Answer, Hint, Op, RaisedAnswer};

use crate::fixture::eventually_async;

use super::contender::{EXTENDED, released};
use super::{Subject, assert_held, granted, subject::Received};

on_both! {
    release_after_refusal_sends_a_hint
    impatient_attempt_causes_no_hint
    hints_name_only_awaited_names
    raise_and_extension_keep_waiters
    all_subscribers_get_their_count
    inspection_reports_waiters
}

pub(super) async fn assert_hints(received: &Received, times: usize) {
    let is_freed = |hint: &&Hint| matches!(hint, Hint::Freed { .. });
    let freed = || received.lock().unwrap().iter().filter(is_freed).count();
    eventually_async("the hints arrive", async || freed() >= times).await;
    assert_eq!(freed(), times);
    let is_expected = |hint: &Hint| matches!(hint, Hint::Listening | Hint::Freed { .. });
    assert!(received.lock().unwrap().iter().all(is_expected));
}

async fn release_after_refusal_sends_a_hint(subject: &Subject) {
    let (counter, _subscription) = subject.subscribe("a").await;
    let (holder, other) = (subject.contender("a"), subject.contender("a"));
    assert_eq!(holder.acquire().await, granted(false, 0));
    assert_eq!(holder.release().await, released(true, false));
    assert_eq!(holder.acquire().await, granted(false, 0));
    assert_held(&other.acquire().await, "someone");
    assert_held(&other.acquire().await, "someone");
    assert_eq!(other.release().await, released(false, false));
    assert_eq!(holder.release().await, released(true, true));
    // A hint of the first release, or of the refused lease, would make it more.
    assert_hints(&counter, 1).await;
    assert_eq!(other.acquire().await, granted(false, 0));
    assert_eq!(other.release().await, released(true, false));
}

async fn impatient_attempt_causes_no_hint(subject: &Subject) {
    for name in ["a", "b"] {
        let holder = subject.contender(["a", "b"]);
        assert_eq!(holder.acquire().await, granted(false, 0));
        assert_held(&subject.contender(name).impatient().acquire().await, "someone");
        assert_eq!(holder.release().await, released(true, false));
    }
}

async fn hints_name_only_awaited_names(subject: &Subject) {
    let (a, _a) = subject.subscribe("a").await;
    let (b, _b) = subject.subscribe("b").await;
    let (holder, other) = (subject.contender(["a", "b"]), subject.contender("b"));
    assert_eq!(holder.acquire().await, granted(false, 0));
    assert_held(&other.acquire().await, "someone");
    assert_eq!(holder.release().await, released(true, true));
    assert_hints(&b, 1).await;
    assert_hints(&a, 0).await;
}

async fn raise_and_extension_keep_waiters(subject: &Subject) {
    let (counter, _subscription) = subject.subscribe("a").await;
    let (holder, other) = (subject.contender("a"), subject.contender("a"));
    assert_eq!(holder.acquire_with(1_000).await, granted(true, 0));
    assert_held(&other.acquire().await, "someone");
    assert_eq!(holder.raise(3_000).await, Ok(Answer::Raised(RaisedAnswer::new(true, 1_255))));
    assert_eq!(holder.extend().await, EXTENDED);
    assert_eq!(holder.release().await, released(true, true));
    assert_hints(&counter, 1).await;
}

async fn all_subscribers_get_their_count(subject: &Subject) {
    let (first, _first) = subject.subscribe("a").await;
    let (second, gone) = subject.subscribe("a").await;
    let (holder, other) = (subject.contender("a"), subject.contender("a"));
    for times in [1, 2] {
        assert_eq!(holder.acquire().await, granted(false, 0));
        assert_held(&other.acquire().await, "someone");
        assert_eq!(holder.release().await, released(true, true));
        assert_hints(&first, times).await;
    }
    assert_hints(&second, 2).await;
    let told = first.lock().unwrap().last().cloned();
    assert!(matches!(told, Some(Hint::Freed { listening: Some(1..) })), "{told:?}");
    drop(gone);
    assert_eq!(holder.acquire().await, granted(false, 0));
    assert_held(&other.acquire().await, "someone");
    assert_eq!(holder.release().await, released(true, true));
    assert_hints(&first, 3).await;
    assert_hints(&second, 2).await;
}

async fn inspection_reports_waiters(subject: &Subject) {
    let (holder, other) = (subject.contender("a"), subject.contender("a"));
    let awaited = async || {
        let answer = subject.contender("unused").ask(Op::Inspect(["a".into()].into())).await;
        let Ok(Answer::Inspected(found)) = answer else { panic!("{answer:?}") };
        let stored = found[0].as_ref().unwrap();
        stored.awaited
    };
    assert_eq!(holder.acquire().await, granted(false, 0));
    assert!(!awaited().await);
    assert_held(&subject.contender("a").impatient().acquire().await, "someone");
    assert!(!awaited().await, "it does not wait");
    assert_held(&other.acquire().await, "someone");
    assert!(awaited().await);
    assert_eq!(holder.release().await, released(true, true));
    assert_eq!(other.acquire().await, granted(false, 0));
    assert!(!awaited().await);
}
