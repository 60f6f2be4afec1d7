//! The owner of an idle lease gets a hint when a request is refused.

use std::sync::Arc;

use tower_redlock::node::{Answer, HeldAnswer, Hint, Op, Stored};

use crate::fixture::eventually_async;

use super::contender::EXTENDED;
use super::{Subject, granted, raised, subject::Received};

on_both! {
    first_refusal_sends_the_owner_a_hint
    ordinary_lease_sends_no_hint
    ask_names_the_refused_one
    raise_and_extension_keep_the_mark
    waiters_are_marked_as_well
    inspection_shows_that_it_lingers
}

/// The channel of the owner of all contenders.
const OWNER: &str = "\rsomeone";

fn names(asks: &Received) -> Vec<Arc<str>> {
    let name = |hint: &Hint| match hint {
        Hint::Listening => None,
        Hint::Asked { name } => Some(Arc::clone(name)),
        other => panic!("{other:?}"),
    };
    asks.lock().unwrap().iter().filter_map(name).collect()
}

/// Waits for the hints, and for one about another lease that is sent after them.
async fn assert_asks(subject: &Subject, asks: &Received, expected: &[&str]) {
    let last = subject.contender("last").lingering();
    assert_eq!(last.acquire().await, granted(false, 0));
    assert!(lingers(&subject.contender("last").acquire().await));
    assert!(matches!(last.release().await, Ok(Answer::Released(_))));
    eventually_async("the last ask arrives", async || {
        names(asks).last().is_some_and(|name| &**name == "last")
    })
    .await;
    let found = names(asks);
    assert!(
        found.iter().map(|name| &**name).eq(expected.iter().copied().chain(["last"])),
        "{found:?}"
    );
    asks.lock().unwrap().clear();
}

fn lingers(response: &Result<Answer, tower_redlock::error::Reason>) -> bool {
    match response {
        Ok(Answer::Held(HeldAnswer { owner, lingers, .. })) => {
            assert_eq!(owner.as_deref(), Some("someone"), "without marks");
            *lingers
        }
        other => panic!("expected a refusal, got {other:?}"),
    }
}

async fn first_refusal_sends_the_owner_a_hint(subject: &Subject) {
    let (asks, _subscription) = subject.subscribe(OWNER).await;
    let holder = subject.contender("a").lingering();
    assert_eq!(holder.acquire().await, granted(false, 0));
    assert_asks(subject, &asks, &[]).await;
    for _ in 0..3 {
        assert!(lingers(&subject.contender("a").impatient().acquire().await), "also asked before");
    }
    assert_asks(subject, &asks, &["a"]).await;
}

async fn ordinary_lease_sends_no_hint(subject: &Subject) {
    let (asks, _subscription) = subject.subscribe(OWNER).await;
    assert_eq!(subject.contender("a").acquire().await, granted(false, 0));
    assert!(!lingers(&subject.contender("a").acquire().await));
    assert_asks(subject, &asks, &[]).await;
}

async fn ask_names_the_refused_one(subject: &Subject) {
    let (asks, _subscription) = subject.subscribe(OWNER).await;
    let holder = subject.contender(["a", "b"]).lingering();
    assert_eq!(holder.acquire().await, granted(false, 0));
    assert!(lingers(&subject.contender(["b", "c"]).acquire().await));
    assert_asks(subject, &asks, &["b"]).await;
}

async fn raise_and_extension_keep_the_mark(subject: &Subject) {
    let (asks, _subscription) = subject.subscribe(OWNER).await;
    let holder = subject.contender("a").lingering();
    assert_eq!(holder.acquire().await, granted(false, 0));
    assert_eq!(holder.raise(7).await, raised(true, 0));
    assert_eq!(holder.extend().await, EXTENDED);
    assert!(lingers(&subject.contender("a").acquire().await));
    assert_asks(subject, &asks, &["a"]).await;
}

async fn waiters_are_marked_as_well(subject: &Subject) {
    let (asks, _subscription) = subject.subscribe(OWNER).await;
    let holder = subject.contender("a").lingering();
    assert_eq!(holder.acquire().await, granted(false, 0));
    // A single attempt causes a hint, and a request that waits marks the key later.
    assert!(lingers(&subject.contender("a").impatient().acquire().await));
    assert!(lingers(&subject.contender("a").acquire().await));
    let Ok(Answer::Released(released)) = holder.release().await else { panic!("released") };
    assert!(released.existed && released.awaited);
    assert_asks(subject, &asks, &["a"]).await;
}

async fn inspection_shows_that_it_lingers(subject: &Subject) {
    let inspect = async || {
        let op = Op::Inspect([Arc::from("a")].into());
        let Ok(Answer::Inspected(found)) = subject.contender("a").ask(op).await else { panic!() };
        found.into_iter().next().flatten().expect("the key is there")
    };
    let shown = |stored: Stored| {
        let owner = stored.lease.map(|lease| lease.owner);
        assert_eq!(owner.as_deref(), Some("someone"));
        (stored.lingers, stored.awaited)
    };
    let holder = subject.contender("a").lingering();
    assert_eq!(holder.acquire().await, granted(false, 0));
    let (_asks, _subscription) = subject.subscribe(OWNER).await;
    assert_eq!(shown(inspect().await), (true, false));
    assert!(lingers(&subject.contender("a").impatient().acquire().await));
    assert_eq!(shown(inspect().await), (true, false), "asked");
    assert!(lingers(&subject.contender("a").acquire().await));
    assert_eq!(shown(inspect().await), (true, true), "asked and awaited");
}
