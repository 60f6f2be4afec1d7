//! Releasing a lease.

use tower_redlock::node::Answer;

use super::contender::released;
use super::{
    Contender, Subject, assert_held,
    contender::{TTL, now_token},
    granted,
};

on_both! {
    release_reports_whether_key_existed
    release_deletes_no_foreign_key
    set_existed_if_every_key_did
    set_release_leaves_foreign_keys
    mixed_calls_release_own_keys
    mixed_calls_leave_foreign_keys
    mixed_calls_keep_their_order
    mixed_calls_tell_of_waiters
}

async fn release_reports_whether_key_existed(subject: &Subject) {
    let contender = subject.contender("a");
    assert_eq!(contender.release().await, released(false, false));
    assert_eq!(contender.acquire().await, granted(false, 0));
    assert_eq!(contender.release().await, released(true, false));
    assert_eq!(contender.release().await, released(false, false));
    assert_eq!(subject.contender("a").acquire().await, granted(false, 0));
}

async fn release_deletes_no_foreign_key(subject: &Subject) {
    let (ours, theirs) = (subject.contender("a"), subject.contender_named("they", "a"));
    assert_eq!(theirs.acquire().await, granted(false, 0));
    assert_eq!(ours.release().await, released(false, false));
    assert_held(&ours.acquire().await, "they");
    assert_eq!(theirs.release().await, released(true, true));
}

async fn set_existed_if_every_key_did(subject: &Subject) {
    let trio = subject.contender(["a", "b", "c"]);
    assert_eq!(trio.acquire().await, granted(false, 0));
    assert_eq!(trio.release().await, released(true, false));
    assert_eq!(trio.release().await, released(false, false));
}

async fn set_release_leaves_foreign_keys(subject: &Subject) {
    let (pair, single) = (subject.contender(["a", "b"]), subject.contender_named("single", "b"));
    assert_eq!(single.acquire().await, granted(false, 0));
    assert_eq!(pair.release().await, released(false, false));
    assert_held(&subject.contender("b").acquire().await, "single");
    assert_eq!(single.release().await, released(true, true));
}

/// Number of releases and acquires that are sent at once, so that single calls have some of both.
const AT_ONCE: usize = 50;

/// The holders of that many names, each of which begins with `name`.
async fn holders(subject: &Subject, name: &str) -> Vec<Contender> {
    let mut holders = Vec::new();
    for i in 0..AT_ONCE {
        let holder = subject.contender_named("they", &*format!("{name}{i}"));
        assert_eq!(holder.acquire().await, granted(false, 0));
        holders.push(holder);
    }
    holders
}

async fn mixed_calls_release_own_keys(subject: &Subject) {
    let names = |i| (format!("a{i}"), [format!("b{i}"), format!("c{i}")]);
    let contenders = |i| {
        let (single, pair) = names(i);
        [subject.contender(&*single), subject.contender(pair.each_ref().map(|name| &**name))]
    };
    let mut holders = Vec::new();
    for i in 0..AT_ONCE {
        let [single, pair] = contenders(i);
        assert_eq!(single.acquire().await, granted(false, 0));
        assert_eq!(pair.acquire().await, granted(false, 0));
        holders.push((single, pair));
    }
    let mut token = now_token();
    let send = |(i, (single, pair)): (usize, &(Contender, Contender))| {
        token += 256;
        let other = subject.contender(&*format!("free{i}"));
        let acquire = other.acquire_op(TTL, token);
        (single.ask(single.release_op()), other.ask(acquire), pair.ask(pair.release_op()))
    };
    let answers: Vec<_> = holders.iter().enumerate().map(send).collect();
    for (single, acquired, pair) in answers {
        assert_eq!(single.await, released(true, false));
        let acquired = acquired.await;
        assert!(matches!(&acquired, Ok(Answer::Granted(it)) if it.accepted), "{acquired:?}");
        assert_eq!(pair.await, released(true, false));
    }
    // The others hold the keys, and are granted them again.
    for contender in (0..AT_ONCE).flat_map(contenders) {
        let answer = contender.acquire().await;
        assert!(matches!(answer, Ok(Answer::Granted(_))), "{answer:?}");
    }
}

async fn mixed_calls_keep_their_order(subject: &Subject) {
    let holders = holders(subject, "x").await;
    let send = |(i, holder): (usize, &Contender)| {
        let next = subject.contender(&*format!("x{i}"));
        let (ended, acquired) =
            (holder.ask(holder.release_op()), next.ask(next.acquire_op(TTL, 0)));
        (ended, acquired, next.ask(next.release_op()))
    };
    let answers: Vec<_> = holders.iter().enumerate().map(send).collect();
    for (ended, acquired, again) in answers {
        assert_eq!(ended.await, released(true, false));
        assert_eq!(acquired.await, granted(false, 0));
        assert_eq!(again.await, released(true, false));
    }
}

async fn mixed_calls_leave_foreign_keys(subject: &Subject) {
    let holders = holders(subject, "held").await;
    let send = |i| {
        let ours = subject.contender(&*format!("held{i}"));
        let other = subject.contender(&*format!("free{i}"));
        (ours.ask(ours.release_op()), other.ask(other.acquire_op(TTL, 0)))
    };
    let answers: Vec<_> = (0..AT_ONCE).map(send).collect();
    for (ended, acquired) in answers {
        assert_eq!(ended.await, released(false, false));
        assert_eq!(acquired.await, granted(false, 0));
    }
    for holder in holders {
        assert_eq!(holder.release().await, released(true, false));
    }
}

async fn mixed_calls_tell_of_waiters(subject: &Subject) {
    let holders = holders(subject, "held").await;
    for i in 0..AT_ONCE {
        assert_held(&subject.contender(&*format!("held{i}")).acquire().await, "they");
    }
    let send = |(i, holder): (usize, &Contender)| {
        let other = subject.contender(&*format!("free{i}"));
        (holder.ask(holder.release_op()), other.ask(other.acquire_op(TTL, 0)))
    };
    let answers: Vec<_> = holders.iter().enumerate().map(send).collect();
    for (ended, acquired) in answers {
        assert_eq!(ended.await, released(true, true));
        assert_eq!(acquired.await, granted(false, 0));
    }
}
