//! Shared leases stand beside each other, and never beside an exclusive one.

use std::{sync::Arc, time::Duration};

use tower_redlock::{
    error::Reason,
    node::{AcquireOp, Answer, ExtendedAnswer, HeldAnswer, Hint, Op, Stored},
};

use crate::fixture::eventually_async;

use super::contender::{EXTENDED, released};
use super::{
    Contender, Subject, assert_held,
    contender::{TTL, soon},
    fence_of, granted, now_token, raised,
};

on_both! {
    shared_leases_stand_beside_each_other
    exclusive_lease_excludes_shared_ones
    shared_lease_excludes_an_exclusive_one
    repeated_acquire_is_one_lease
    late_acquire_does_not_shorten_a_renewed_lease
    exclusive_lease_becomes_a_shared_one
    waiting_exclusive_request_keeps_others_out
    last_shared_lease_leaves_the_turn_to_the_waiter
    impatient_exclusive_request_leaves_no_mark
    owners_are_asked_each_time
    renewal_keeps_and_restores_a_lease
    renewal_meets_the_other_kind
    each_lease_ends_at_its_own_time
    ended_lease_raises_nothing
    token_is_the_greatest_fence
    raise_needs_the_lease
    shared_keys_are_enumerated
    first_sixteen_leases_are_listed
    all_shared_leases_end_at_once
    end_of_all_shared_leases_keeps_an_exclusive_one
    end_of_all_leaves_the_turn_to_the_waiter
    withdrawn_request_keeps_nobody_out
    request_that_withdraws_leaves_the_marks_of_others
    withdrawal_beside_leases_reopens_them
    attempts_of_a_request_have_one_mark
    set_that_is_refused_keeps_marks
    set_withdraws_from_all_names
    release_of_a_shared_lease_ends_its_exclusive_form
}

fn reader(subject: &Subject, owner: &str) -> Contender {
    subject.contender_named(owner, "a").shared()
}

fn readers(response: &Result<Answer, Reason>) -> usize {
    match response {
        Ok(Answer::Held(held)) if held.is_shared => held.readers,
        other => panic!("{other:?}"),
    }
}

fn is_shared(response: &Result<Answer, Reason>) -> bool {
    matches!(response, Ok(Answer::Held(HeldAnswer { is_shared: true, .. })))
}

async fn inspect(subject: &Subject) -> Option<Stored> {
    match subject.contender("a").ask(Op::Inspect(["a".into()].into())).await {
        Ok(Answer::Inspected(mut found)) => found.pop().expect("one answer for one name"),
        other => panic!("{other:?}"),
    }
}

async fn shared_leases_stand_beside_each_other(subject: &Subject) {
    let (one, two) = (reader(subject, "one"), reader(subject, "two"));
    assert_eq!(one.acquire().await, granted(false, 0));
    assert_eq!(two.acquire().await, granted(false, 0));
    let found = inspect(subject).await.expect("a key");
    assert_eq!((found.sharing, found.awaited), (2, false));
    assert!(["one", "two"].contains(&&*found.lease.expect("of this crate").owner));
    assert_eq!(one.release().await, released(true, false));
    assert_eq!(one.release().await, released(false, false));
    assert_eq!(inspect(subject).await.expect("a key").sharing, 1);
    assert_eq!(two.release().await, released(true, false));
    assert_eq!(inspect(subject).await, None);
    assert_eq!(subject.contender("a").acquire().await, granted(false, 0));
}

async fn exclusive_lease_excludes_shared_ones(subject: &Subject) {
    let writer = subject.contender_named("writer", "a");
    assert_eq!(writer.acquire().await, granted(false, 0));
    let refused = reader(subject, "one").acquire().await;
    assert_held(&refused, "writer");
    assert!(!is_shared(&refused));
    assert_eq!(inspect(subject).await.expect("a key").sharing, 0);
    assert_eq!(writer.release().await, released(true, true), "the shared request waits");
    assert_eq!(reader(subject, "one").acquire().await, granted(false, 0));
}

async fn shared_lease_excludes_an_exclusive_one(subject: &Subject) {
    let reader = reader(subject, "one");
    assert_eq!(reader.acquire().await, granted(false, 0));
    for writer in [subject.contender("a"), subject.contender(["a", "b"])] {
        let refused = writer.acquire().await;
        assert_held(&refused, "one");
        assert!(is_shared(&refused));
        assert_eq!(writer.release().await, released(false, false));
    }
    let found = inspect(subject).await.expect("a key");
    assert_eq!((found.sharing, found.awaited), (1, true));
}

async fn repeated_acquire_is_one_lease(subject: &Subject) {
    let reader = reader(subject, "one");
    assert_eq!(reader.acquire().await, granted(false, 0));
    assert_eq!(reader.acquire().await, granted(false, 0));
    assert_eq!(inspect(subject).await.expect("a key").sharing, 1);
    assert_eq!(reader.release().await, released(true, false));
    assert_eq!(inspect(subject).await, None);
}

async fn late_acquire_does_not_shorten_a_renewed_lease(subject: &Subject) {
    let reader = reader(subject, "one");
    let short = Duration::from_secs(10);
    assert_eq!(reader.acquire_for(short).await, granted(false, 0));
    assert_eq!(reader.extend().await, EXTENDED);
    assert_eq!(reader.acquire_for(short).await, granted(false, 0));
    let found = inspect(subject).await.expect("a key");
    assert!(found.remaining > Some(short * 2), "{found:?}");
}

async fn exclusive_lease_becomes_a_shared_one(subject: &Subject) {
    let writer = subject.contender_named("one", "a");
    let (same, other) = (writer.clone().shared(), reader(subject, "two"));
    assert_eq!(writer.acquire().await, granted(false, 0));
    assert_held(&other.acquire().await, "one");
    let (hints, _subscription) = subject.subscribe("a").await;
    assert_eq!(same.extend().await, EXTENDED);
    eventually_async("the waiter is woken", async || hints.lock().unwrap().len() == 2).await;
    assert_eq!(inspect(subject).await.expect("a key").sharing, 1);
    assert_eq!(other.acquire().await, granted(false, 0));
    assert!(is_shared(&subject.contender("a").impatient().acquire().await));
    assert!(is_shared(&writer.extend().await), "the exclusive lease is over");
    assert_eq!(writer.release().await, released(false, false));
    assert_eq!(inspect(subject).await.expect("a key").sharing, 2);
    assert_eq!(same.release().await, released(true, false));
    assert_eq!(other.release().await, released(true, false));
}

async fn waiting_exclusive_request_keeps_others_out(subject: &Subject) {
    let (one, two) = (reader(subject, "one"), reader(subject, "two"));
    assert_eq!(one.acquire().await, granted(false, 0));
    assert_held(&subject.contender("a").acquire().await, "one");
    let refused = two.acquire().await;
    assert_held(&refused, "one");
    assert!(is_shared(&refused));
    assert_eq!(one.acquire().await, granted(false, 0), "it has the key already");
    assert_eq!(one.extend().await, Ok(Answer::Extended(ExtendedAnswer::new(true))));
}

async fn last_shared_lease_leaves_the_turn_to_the_waiter(subject: &Subject) {
    let (one, two) = (reader(subject, "one"), reader(subject, "two"));
    assert_eq!(one.acquire().await, granted(false, 0));
    assert_eq!(two.acquire().await, granted(false, 0));
    let writer = subject.contender_named("writer", "a");
    assert!(is_shared(&writer.acquire().await));
    let (hints, _subscription) = subject.subscribe("a").await;
    assert_eq!(one.release().await, released(true, true));
    assert_eq!(hints.lock().unwrap().len(), 1, "another one has it still");
    assert_eq!(two.release().await, released(true, true));
    eventually_async("the release is published", async || hints.lock().unwrap().len() == 2).await;
    assert!(matches!(hints.lock().unwrap()[1], Hint::Freed { .. }));
    assert_eq!(inspect(subject).await, None, "a mark is no holder");
    let three = reader(subject, "three");
    assert!(is_shared(&three.acquire().await), "the waiter comes next");
    assert_eq!(three.release().await, released(false, false));
    assert_eq!(writer.acquire().await, granted(false, 0));
    assert_held(&reader(subject, "three").acquire().await, "writer");
    assert_eq!(hints.lock().unwrap().len(), 2, "a refused attempt wakes nobody");
}

async fn impatient_exclusive_request_leaves_no_mark(subject: &Subject) {
    assert_eq!(reader(subject, "one").acquire().await, granted(false, 0));
    assert_held(&subject.contender("a").impatient().acquire().await, "one");
    assert_eq!(reader(subject, "two").acquire().await, granted(false, 0));
}

async fn owners_are_asked_each_time(subject: &Subject) {
    let (one, two) = (reader(subject, "one"), reader(subject, "two"));
    assert_eq!(one.acquire().await, granted(false, 0));
    assert_eq!(two.acquire().await, granted(false, 0));
    let (asked_one, _first) = subject.subscribe("\rone").await;
    let (asked_two, _second) = subject.subscribe("\rtwo").await;
    for _ in 0..3 {
        assert!(is_shared(&subject.contender("a").acquire().await));
    }
    for asked in [asked_one, asked_two] {
        eventually_async("it is asked", async || asked.lock().unwrap().len() == 4).await;
        let request = Hint::Asked { name: "a".into() };
        assert!(asked.lock().unwrap()[1..].iter().all(|hint| *hint == request));
    }
}

async fn renewal_keeps_and_restores_a_lease(subject: &Subject) {
    let (one, two) = (reader(subject, "one"), reader(subject, "two"));
    assert_eq!(one.extend().await, EXTENDED, "stored again");
    assert_eq!(two.acquire().await, granted(false, 0));
    assert_eq!(one.extend().await, EXTENDED);
    assert_eq!(inspect(subject).await.expect("a key").sharing, 2);
    assert_eq!(one.release().await, released(true, false));
}

async fn renewal_meets_the_other_kind(subject: &Subject) {
    let (reader, writer) = (reader(subject, "one"), subject.contender_named("writer", "a"));
    assert_eq!(writer.acquire().await, granted(false, 0));
    assert_held(&reader.extend().await, "writer");
    assert_eq!(writer.release().await, released(true, false));
    assert_eq!(reader.acquire().await, granted(false, 0));
    let refused = writer.extend().await;
    assert_held(&refused, "one");
    assert!(is_shared(&refused));
    assert_eq!(writer.raise(now_token()).await, Err(Reason::KeyGone));
    assert_eq!(writer.release().await, released(false, false));
    assert_eq!(inspect(subject).await.expect("a key").sharing, 1);
}

async fn each_lease_ends_at_its_own_time(subject: &Subject) {
    let (short, long) = (reader(subject, "short"), reader(subject, "long"));
    assert_eq!(long.acquire().await, granted(false, 0));
    assert_eq!(short.acquire_for(Duration::from_millis(50)).await, granted(false, 0));
    eventually_async("the short one ends", async || {
        inspect(subject).await.expect("a key").sharing == 1
    })
    .await;
    assert_held(&subject.contender("a").acquire().await, "long");
    assert_eq!(long.release().await, released(true, true));
    assert_eq!(subject.contender("a").acquire().await, granted(false, 0));
}

async fn ended_lease_raises_nothing(subject: &Subject) {
    let (short, long) = (reader(subject, "short"), reader(subject, "long"));
    assert_eq!(long.acquire().await, granted(false, 0));
    assert_eq!(short.acquire_for(Duration::from_millis(50)).await, granted(false, 0));
    // The node says when the lease has ended: a client only estimates the time of a server.
    eventually_async("the short lease ends", async || {
        inspect(subject).await.expect("a key").sharing == 1
    })
    .await;
    let token = now_token();
    assert_eq!(short.raise(token).await, Err(Reason::KeyGone), "beside another lease");
    assert_eq!(long.release().await, released(true, false));

    assert_eq!(short.acquire_for(Duration::from_millis(50)).await, granted(false, 0));
    eventually_async("the key expires", async || inspect(subject).await.is_none()).await;
    assert_eq!(short.raise(token).await, Err(Reason::KeyGone), "as the last one");
}

async fn token_is_the_greatest_fence(subject: &Subject) {
    let token = now_token();
    let writer = subject.contender("a");
    assert_eq!(writer.acquire_with(token).await, granted(true, 0));
    assert_eq!(writer.release().await, released(true, false));
    let (one, two) = (reader(subject, "one"), reader(subject, "two"));
    let fence = token + 255;
    assert_eq!(one.acquire_with(1).await, granted(false, fence), "below the fence");
    assert_eq!(one.raise(fence).await, raised(true, fence));
    assert_eq!(two.acquire_with(fence).await, granted(true, 0), "the same for all");
    assert_eq!(one.raise(fence - 1).await, raised(false, fence));
    assert_eq!(two.raise(fence + 5).await, raised(true, fence));
    assert_eq!(one.release().await, released(true, false));
    assert_eq!(two.release().await, released(true, false));
    assert_eq!(subject.contender("a").acquire_with(fence + 5).await, granted(false, fence + 5));
}

async fn raise_needs_the_lease(subject: &Subject) {
    let token = now_token();
    let (one, two) = (reader(subject, "one"), reader(subject, "two"));
    assert_eq!(one.acquire().await, granted(false, 0));
    assert_eq!(two.raise(token).await, Err(Reason::KeyGone));
    assert_eq!(one.raise(token + 600_000_000).await, Err(Reason::TokenAhead));
    assert_eq!(one.raise(token).await, raised(true, 0));
    assert_eq!(fence_of(&reader(subject, "three").acquire().await), token);
}

async fn shared_keys_are_enumerated(subject: &Subject) {
    use tower_redlock::node::{ScanKind, ScanOp};
    assert_eq!(reader(subject, "one").acquire().await, granted(false, 0));
    let scan = Op::Scan(ScanOp::new(ScanKind::Locks, None, 100));
    let Ok(Answer::Scanned(page)) = subject.contender("a").ask(scan).await else {
        panic!("not a page");
    };
    assert_eq!(page.names, [Arc::from("a")]);
}

async fn end_all(subject: &Subject) -> Result<Answer, Reason> {
    subject.contender("a").ask(Op::EndShared("a".into())).await
}

async fn first_sixteen_leases_are_listed(subject: &Subject) {
    for ttl in 0..20 {
        let reader = reader(subject, &format!("reader {ttl}"));
        let granted_for = reader.acquire_for(Duration::from_secs(30 + ttl)).await;
        assert_eq!(granted_for, granted(false, 0));
    }
    let found = inspect(subject).await.expect("a key");
    assert_eq!((found.sharing, found.awaited), (20, false));
    let owners: Vec<_> = found.readers.iter().map(|lease| lease.owner.to_string()).collect();
    let expected: Vec<_> = (4..20).rev().map(|ttl| format!("reader {ttl}")).collect();
    assert_eq!(owners, expected, "the one that lasts longest comes first");
    assert_eq!(found.lease, found.readers.first().cloned());
    assert_eq!(readers(&subject.contender("a").acquire().await), 20);
    let marked = inspect(subject).await.expect("a key");
    assert_eq!((marked.sharing, marked.awaited, marked.readers), (20, true, found.readers));
}

async fn all_shared_leases_end_at_once(subject: &Subject) {
    assert_eq!(end_all(subject).await, released(false, false));
    for owner in ["one", "two"] {
        assert_eq!(reader(subject, owner).acquire().await, granted(false, 0));
    }
    assert_eq!(end_all(subject).await, released(true, false));
    assert_eq!(inspect(subject).await, None);
    assert_eq!(end_all(subject).await, released(false, false));
    assert_eq!(subject.contender("a").acquire().await, granted(false, 0));
}

async fn end_of_all_shared_leases_keeps_an_exclusive_one(subject: &Subject) {
    assert_eq!(subject.contender_named("writer", "a").acquire().await, granted(false, 0));
    assert_eq!(end_all(subject).await, released(false, false));
    assert_held(&reader(subject, "one").acquire().await, "writer");
}

async fn end_of_all_leaves_the_turn_to_the_waiter(subject: &Subject) {
    for owner in ["one", "two"] {
        assert_eq!(reader(subject, owner).acquire().await, granted(false, 0));
    }
    let writer = subject.contender_named("writer", "a");
    assert_eq!(readers(&writer.acquire().await), 2);
    let (hints, _subscription) = subject.subscribe("a").await;
    assert_eq!(end_all(subject).await, released(true, true));
    eventually_async("it is published", async || hints.lock().unwrap().len() == 2).await;
    assert!(matches!(hints.lock().unwrap()[1], Hint::Freed { .. }));
    assert_eq!(inspect(subject).await, None, "a mark is no holder");
    assert_eq!(end_all(subject).await, released(false, false), "only the mark is left");
    assert_eq!(readers(&reader(subject, "three").acquire().await), 0, "the waiter comes next");
    assert_eq!(writer.acquire().await, granted(false, 0));
}

async fn withdraw(writer: &Contender) -> Result<Answer, Reason> {
    writer.ask(Op::Withdraw(Arc::clone(writer.lease()))).await
}

fn waiter(response: &Result<Answer, Reason>) -> Option<&str> {
    match response {
        Ok(Answer::Held(held)) if held.is_shared => held.waiter.as_deref(),
        other => panic!("{other:?}"),
    }
}

async fn withdrawn_request_keeps_nobody_out(subject: &Subject) {
    let one = reader(subject, "one");
    assert_eq!(one.acquire().await, granted(false, 0));
    let writer = subject.contender_named("writer", "a");
    assert_held(&writer.acquire().await, "one");
    assert_eq!(one.release().await, released(true, true));
    let kept_out = reader(subject, "two");
    let refused = kept_out.acquire().await;
    assert_eq!((readers(&refused), waiter(&refused)), (0, Some("writer")));
    let (hints, _subscription) = subject.subscribe("a").await;
    assert_eq!(withdraw(&writer).await, Ok(Answer::Withdrawn(true)));
    eventually_async("the reader is woken", async || hints.lock().unwrap().len() == 2).await;
    assert!(matches!(hints.lock().unwrap()[1], Hint::Freed { .. }));
    assert_eq!(kept_out.acquire().await, granted(false, 0));
    assert_eq!(withdraw(&writer).await, Ok(Answer::Withdrawn(false)));
    assert_eq!(hints.lock().unwrap().len(), 2, "once");
}

async fn request_that_withdraws_leaves_the_marks_of_others(subject: &Subject) {
    assert_eq!(reader(subject, "one").acquire().await, granted(false, 0));
    let [first, second] = ["first", "second"].map(|owner| subject.contender_named(owner, "a"));
    assert_held(&first.acquire().await, "one");
    assert_held(&second.acquire().await, "one");
    let (hints, _subscription) = subject.subscribe("a").await;
    assert_eq!(withdraw(&first).await, Ok(Answer::Withdrawn(true)));
    assert_eq!(waiter(&reader(subject, "two").acquire().await), Some("second"));
    assert_eq!(hints.lock().unwrap().len(), 1, "it wakes nobody");
    let found = inspect(subject).await.expect("a key");
    assert_eq!(found.waiter.map(|waiter| waiter.owner), Some("second".into()));
    assert_eq!((found.sharing, found.readers.len(), found.awaited), (1, 1, true));
    assert_eq!(withdraw(&second).await, Ok(Answer::Withdrawn(true)));
    assert_eq!(reader(subject, "two").acquire().await, granted(false, 0));
    assert_eq!(inspect(subject).await.expect("a key").waiter, None);
}

async fn withdrawal_beside_leases_reopens_them(subject: &Subject) {
    let one = reader(subject, "one");
    assert_eq!(one.acquire().await, granted(false, 0));
    let writer = subject.contender_named("writer", "a");
    assert_held(&writer.acquire().await, "one");
    let (asked, _owner) = subject.subscribe("\rone").await;
    let (hints, _subscription) = subject.subscribe("a").await;
    assert_eq!(withdraw(&writer).await, Ok(Answer::Withdrawn(true)));
    let withdrawn = Hint::Withdrawn { name: "a".into() };
    eventually_async("the owner is told", async || asked.lock().unwrap().len() == 2).await;
    assert_eq!(asked.lock().unwrap()[1], withdrawn);
    assert_eq!(one.extend().await, EXTENDED, "nobody waits");
    eventually_async("readers are woken", async || hints.lock().unwrap().len() == 2).await;
    assert_eq!(reader(subject, "two").acquire().await, granted(false, 0));
    assert_eq!(one.release().await, released(true, false));
}

async fn attempts_of_a_request_have_one_mark(subject: &Subject) {
    assert_eq!(reader(subject, "one").acquire().await, granted(false, 0));
    let first = subject.contender_named("writer", "a");
    assert_held(&first.acquire().await, "one");
    let second = subject.contender_named("writer", "a");
    let attempt = AcquireOp::new(Arc::clone(second.lease()), TTL, soon());
    let refused = second.ask(Op::Acquire(attempt.waits(Arc::clone(first.lease())))).await;
    assert_held(&refused, "one");
    assert_eq!(withdraw(&second).await, Ok(Answer::Withdrawn(false)));
    assert_eq!(withdraw(&first).await, Ok(Answer::Withdrawn(true)));
    assert_eq!(reader(subject, "two").acquire().await, granted(false, 0));
}

async fn set_that_is_refused_keeps_marks(subject: &Subject) {
    let one = reader(subject, "one");
    assert_eq!(one.acquire().await, granted(false, 0));
    let writer = subject.contender_named("writer", "a");
    assert_held(&writer.acquire().await, "one");
    assert_eq!(one.release().await, released(true, true));
    assert_eq!(subject.contender_named("other", "b").acquire().await, granted(false, 0));
    assert_held(&subject.contender(["a", "b"]).impatient().acquire().await, "other");
    assert_eq!(waiter(&reader(subject, "two").acquire().await), Some("writer"));
}

async fn set_withdraws_from_all_names(subject: &Subject) {
    for name in ["a", "b"] {
        let reader = subject.contender_named("one", name).shared();
        assert_eq!(reader.acquire().await, granted(false, 0));
    }
    let writer = subject.contender_named("writer", ["a", "b"]);
    assert_held(&writer.acquire().await, "one");
    assert_eq!(withdraw(&writer).await, Ok(Answer::Withdrawn(true)));
    for name in ["a", "b"] {
        let reader = subject.contender_named("two", name).shared();
        assert_eq!(reader.acquire().await, granted(false, 0));
    }
}

/// A renewal that would have changed the form was lost.
async fn release_of_a_shared_lease_ends_its_exclusive_form(subject: &Subject) {
    let writer = subject.contender_named("one", "a");
    assert_eq!(writer.acquire().await, granted(false, 0));
    assert_held(&reader(subject, "two").acquire().await, "one");
    let (hints, _subscription) = subject.subscribe("a").await;
    assert_eq!(reader(subject, "three").release().await, released(false, false));
    assert_eq!(writer.shared().release().await, released(true, true));
    eventually_async("the waiter is woken", async || hints.lock().unwrap().len() == 2).await;
    assert_eq!(inspect(subject).await, None);
}
