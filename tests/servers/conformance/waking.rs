//! Subscribers are notified of a release if a waiter was refused before.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use tower_redlock::node::{Answer, Hint, Hints, RaisedAnswer, ReleasedAnswer, Subscription};

use super::{Subject, assert_held, granted};
use crate::support::eventually_async;

on_both! {
    a_release_is_told_where_somebody_was_refused
    who_does_not_wait_leaves_no_word
    a_release_is_told_of_each_name_that_was_waited_for
    a_raise_and_an_extension_leave_it_known_that_somebody_waits
    all_who_listen_are_told_and_how_many_they_are
}

#[derive(Debug, Default)]
struct Ear {
    listening: AtomicBool,
    freed: AtomicUsize,
    others: AtomicUsize,
}

async fn listen(subject: &Subject, name: &str) -> (Arc<Ear>, Subscription) {
    let ear = Arc::<Ear>::default();
    let hears = Arc::clone(&ear);
    let hints = Hints::from_fn(move |hint| match hint {
        Hint::Listening => hears.listening.store(true, Ordering::SeqCst),
        Hint::Freed { listening } => {
            hears.others.store(listening.unwrap_or(0), Ordering::SeqCst);
            hears.freed.fetch_add(1, Ordering::SeqCst);
        }
        other => panic!("{other:?}"),
    });
    let subscription = subject.node().subscribe(&name.into(), hints);
    eventually_async("it is heard", async || ear.listening.load(Ordering::SeqCst)).await;
    (ear, subscription)
}

async fn told(ear: &Ear, times: usize) {
    eventually_async("it is told", async || ear.freed.load(Ordering::SeqCst) >= times).await;
    assert_eq!(ear.freed.load(Ordering::SeqCst), times);
}

fn released(awaited: bool) -> Answer {
    Answer::Released(ReleasedAnswer::new(true, awaited))
}

async fn a_release_is_told_where_somebody_was_refused(subject: &Subject) {
    let (ear, _subscription) = listen(subject, "a").await;
    let (holder, other) = (subject.party("a"), subject.party("a"));
    assert_eq!(holder.acquire().await, granted(false, 0));
    assert_eq!(holder.release().await, Ok(released(false)));
    assert_eq!(holder.acquire().await, granted(false, 0));
    assert_held(&other.acquire().await, "someone");
    assert_held(&other.acquire().await, "someone");
    assert_eq!(other.release().await, Ok(Answer::Released(ReleasedAnswer::new(false, false))));
    assert_eq!(holder.release().await, Ok(released(true)));
    // A hint of the first release, or of the refused lease, would make it more.
    told(&ear, 1).await;
    assert_eq!(other.acquire().await, granted(false, 0));
    assert_eq!(other.release().await, Ok(released(false)));
}

async fn who_does_not_wait_leaves_no_word(subject: &Subject) {
    for name in ["a", "b"] {
        let holder = subject.party(["a", "b"]);
        assert_eq!(holder.acquire().await, granted(false, 0));
        assert_held(&subject.party(name).impatient().acquire().await, "someone");
        assert_eq!(holder.release().await, Ok(released(false)));
    }
}

async fn a_release_is_told_of_each_name_that_was_waited_for(subject: &Subject) {
    let (a, _a) = listen(subject, "a").await;
    let (b, _b) = listen(subject, "b").await;
    let (holder, other) = (subject.party(["a", "b"]), subject.party("b"));
    assert_eq!(holder.acquire().await, granted(false, 0));
    assert_held(&other.acquire().await, "someone");
    assert_eq!(holder.release().await, Ok(released(true)));
    told(&b, 1).await;
    told(&a, 0).await;
}

async fn a_raise_and_an_extension_leave_it_known_that_somebody_waits(subject: &Subject) {
    let (ear, _subscription) = listen(subject, "a").await;
    let (holder, other) = (subject.party("a"), subject.party("a"));
    assert_eq!(holder.acquire_with(1_000).await, granted(true, 0));
    assert_held(&other.acquire().await, "someone");
    assert_eq!(holder.raise(3_000).await, Ok(Answer::Raised(RaisedAnswer::new(true, 1_255))));
    assert_eq!(holder.extend().await, Ok(Answer::Extended));
    assert_eq!(holder.release().await, Ok(released(true)));
    told(&ear, 1).await;
}

async fn all_who_listen_are_told_and_how_many_they_are(subject: &Subject) {
    let (first, _first) = listen(subject, "a").await;
    let (second, gone) = listen(subject, "a").await;
    let (holder, other) = (subject.party("a"), subject.party("a"));
    for times in [1, 2] {
        assert_eq!(holder.acquire().await, granted(false, 0));
        assert_held(&other.acquire().await, "someone");
        assert_eq!(holder.release().await, Ok(released(true)));
        told(&first, times).await;
    }
    told(&second, 2).await;
    assert!(first.others.load(Ordering::SeqCst) >= 1);
    drop(gone);
    assert_eq!(holder.acquire().await, granted(false, 0));
    assert_held(&other.acquire().await, "someone");
    assert_eq!(holder.release().await, Ok(released(true)));
    told(&first, 3).await;
    told(&second, 2).await;
}
