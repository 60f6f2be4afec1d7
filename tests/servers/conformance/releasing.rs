//! Releasing a lease.

use tower_redlock::node::{Answer, ReleasedAnswer};

use super::{Subject, assert_held, granted};

const EXISTED: Result<Answer, tower_redlock::error::Reason> =
    Ok(Answer::Released(ReleasedAnswer::new(true, false)));
const AWAITED: Result<Answer, tower_redlock::error::Reason> =
    Ok(Answer::Released(ReleasedAnswer::new(true, true)));
const NOTHING: Result<Answer, tower_redlock::error::Reason> =
    Ok(Answer::Released(ReleasedAnswer::new(false, false)));

on_both! {
    release_reports_whether_key_existed
    release_deletes_no_foreign_key
    set_existed_if_every_key_did
    set_release_leaves_foreign_keys
}

async fn release_reports_whether_key_existed(subject: &Subject) {
    let contender = subject.contender("a");
    assert_eq!(contender.release().await, NOTHING);
    assert_eq!(contender.acquire().await, granted(false, 0));
    assert_eq!(contender.release().await, EXISTED);
    assert_eq!(contender.release().await, NOTHING);
    assert_eq!(subject.contender("a").acquire().await, granted(false, 0));
}

async fn release_deletes_no_foreign_key(subject: &Subject) {
    let (ours, theirs) = (subject.contender("a"), subject.contender_named("they", "a"));
    assert_eq!(theirs.acquire().await, granted(false, 0));
    assert_eq!(ours.release().await, NOTHING);
    assert_held(&ours.acquire().await, "they");
    assert_eq!(theirs.release().await, AWAITED);
}

async fn set_existed_if_every_key_did(subject: &Subject) {
    let trio = subject.contender(["a", "b", "c"]);
    assert_eq!(trio.acquire().await, granted(false, 0));
    assert_eq!(trio.release().await, EXISTED);
    assert_eq!(trio.release().await, NOTHING);
}

async fn set_release_leaves_foreign_keys(subject: &Subject) {
    let (pair, single) = (subject.contender(["a", "b"]), subject.contender_named("single", "b"));
    assert_eq!(single.acquire().await, granted(false, 0));
    assert_eq!(pair.release().await, NOTHING);
    assert_held(&subject.contender("b").acquire().await, "single");
    assert_eq!(single.release().await, AWAITED);
}
