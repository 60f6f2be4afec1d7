//! The key of a slot has the mark of a waiter from the start: a request for any slot of a name listens
//! to all of them, and may have been refused none.

use std::time::Duration;

use tower_redlock::Resource;
use tower_redlock::error::Reason;
use tower_redlock::node::{Answer, Op, RaisedAnswer, ReleasedAnswer};

use crate::fixture::eventually_async;

use super::contender::{EXTENDED, released};
use super::hints::assert_hints;
use super::{Contender, Subject, assert_held, granted};

on_both! {
    key_is_marked_from_the_start
    raise_and_extension_keep_the_mark
    key_that_is_stored_again_is_marked
    single_attempt_keeps_the_mark
    release_is_published
    listeners_make_a_release_awaited
    foreign_release_is_not_published
    other_locks_are_marked_by_waiters
}

const NAME: &str = "slot:3:export";

fn contender(subject: &Subject) -> Contender {
    subject.contender(Resource::of_slot("export", 3).expect("a slot"))
}

/// Whether the key has the mark; `None` without a key.
async fn mark(subject: &Subject, name: &str) -> Option<bool> {
    let answer = subject.contender("unused").ask(Op::Inspect([name.into()].into())).await;
    let Ok(Answer::Inspected(found)) = answer else { panic!("{answer:?}") };
    found[0].as_ref().map(|stored| stored.awaited)
}

async fn key_is_marked_from_the_start(subject: &Subject) {
    let holder = contender(subject);
    assert_eq!(holder.acquire().await, granted(false, 0));
    assert_eq!(mark(subject, NAME).await, Some(true));
    // A call that arrives twice changes nothing.
    assert_eq!(holder.acquire().await, granted(false, 0));
    assert_eq!(mark(subject, NAME).await, Some(true));
}

async fn raise_and_extension_keep_the_mark(subject: &Subject) {
    let (counter, _subscription) = subject.subscribe(NAME).await;
    let holder = contender(subject);
    assert_eq!(holder.acquire_with(1_000).await, granted(true, 0));
    assert_eq!(holder.raise(3_000).await, Ok(Answer::Raised(RaisedAnswer::new(true, 1_255))));
    assert_eq!(mark(subject, NAME).await, Some(true));
    assert_eq!(holder.extend().await, EXTENDED);
    assert_eq!(mark(subject, NAME).await, Some(true));
    assert_eq!(holder.release().await, released(true, true));
    assert_hints(&counter, 1).await;
}

async fn key_that_is_stored_again_is_marked(subject: &Subject) {
    let (counter, _subscription) = subject.subscribe(NAME).await;
    let holder = contender(subject);
    assert_eq!(holder.acquire_for(Duration::from_millis(20)).await, granted(false, 0));
    eventually_async("the key expires", async || holder.raise(0).await == Err(Reason::KeyGone))
        .await;
    assert_eq!(mark(subject, NAME).await, None);
    assert_eq!(holder.extend().await, EXTENDED);
    assert_eq!(mark(subject, NAME).await, Some(true));
    assert_eq!(holder.release().await, released(true, true));
    assert_hints(&counter, 1).await;
}

async fn single_attempt_keeps_the_mark(subject: &Subject) {
    let holder = contender(subject);
    assert_eq!(holder.acquire().await, granted(false, 0));
    assert_held(&contender(subject).impatient().acquire().await, "someone");
    assert_eq!(mark(subject, NAME).await, Some(true));
    assert_held(&contender(subject).acquire().await, "someone");
    assert_eq!(mark(subject, NAME).await, Some(true));
}

/// Without a refusal before it.
async fn release_is_published(subject: &Subject) {
    let (counter, _subscription) = subject.subscribe(NAME).await;
    let (other, _other) = subject.subscribe("slot:4:export").await;
    let holder = contender(subject);
    for times in [1, 2] {
        assert_eq!(holder.acquire().await, granted(false, 0));
        assert_eq!(holder.release().await, released(true, true));
        assert_hints(&counter, times).await;
    }
    assert_hints(&other, 0).await;
}

async fn listeners_make_a_release_awaited(subject: &Subject) {
    let holder = contender(subject);
    let release = async || {
        assert_eq!(holder.acquire().await, granted(false, 0));
        holder.release().await
    };
    assert_eq!(release().await, released(true, false), "none listens");
    let (_, subscription) = subject.subscribe(NAME).await;
    assert_eq!(release().await, released(true, true));
    drop(subscription);
    eventually_async("the subscription ends", async || release().await == released(true, false))
        .await;
}

async fn foreign_release_is_not_published(subject: &Subject) {
    let (counter, _subscription) = subject.subscribe(NAME).await;
    let (holder, other) = (contender(subject), contender(subject));
    assert_eq!(holder.acquire().await, granted(false, 0));
    let nothing = Answer::Released(ReleasedAnswer::new(false, false));
    assert_eq!(other.release().await, Ok(nothing));
    assert_eq!(mark(subject, NAME).await, Some(true));
    assert_eq!(holder.release().await, released(true, true));
    // A hint of the refused lease would make it more.
    assert_hints(&counter, 1).await;
}

/// Also the lock of the name that has slots.
async fn other_locks_are_marked_by_waiters(subject: &Subject) {
    let (counter, _subscription) = subject.subscribe("export").await;
    let holder = subject.contender("export");
    assert_eq!(holder.acquire().await, granted(false, 0));
    assert_eq!(mark(subject, "export").await, Some(false));
    assert_eq!(holder.release().await, released(true, false));
    assert_hints(&counter, 0).await;
}
