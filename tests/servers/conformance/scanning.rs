//! Pages of names.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use tower_redlock::node::{Answer, Op, ScanKind, ScanOp, ScannedAnswer};

use crate::fixture::jobs::{claim, of_tick, prepare};

use super::Subject;

on_both! {
    nothing_is_one_empty_page
    pages_have_each_name_once
    kinds_are_scanned_separately
    ended_lock_is_not_scanned
    promised_job_is_not_scanned
    names_are_inspected_in_order
}

/// Reads all pages, and returns the names and the number of pages.
async fn scan(subject: &Subject, kind: ScanKind, count: u32) -> (Vec<String>, usize) {
    let (mut names, mut pages, mut cursor) = (Vec::new(), 0, None);
    loop {
        let op = Op::Scan(ScanOp::new(kind, cursor, count));
        let answer = subject.contender("unused").ask(op).await;
        let Ok(Answer::Scanned(ScannedAnswer { names: page, next, .. })) = answer else {
            panic!("no page: {answer:?}");
        };
        names.extend(page.iter().map(ToString::to_string));
        pages += 1;
        if next.is_none() {
            names.sort();
            return (names, pages);
        }
        cursor = next;
    }
}

async fn nothing_is_one_empty_page(subject: &Subject) {
    for kind in ScanKind::ALL {
        assert_eq!(scan(subject, kind, 100).await, (vec![], 1));
    }
}

async fn pages_have_each_name_once(subject: &Subject) {
    let expected: BTreeSet<_> = (0..300).map(|i| format!("name {i} ä:*")).collect();
    for name in &expected {
        subject.contender(&**name).acquire().await.unwrap();
    }
    let (mut names, pages) = scan(subject, ScanKind::Locks, 10).await;
    assert!(pages >= 10, "{pages} pages");
    // A server may repeat a name while it moves its keys.
    names.dedup();
    assert_eq!(names, expected.into_iter().collect::<Vec<_>>());
    assert_eq!(scan(subject, ScanKind::Locks, u32::MAX).await.0.len(), 300);
    assert_eq!(scan(subject, ScanKind::Locks, 0).await.0.len(), 300);
}

async fn names_are_inspected_in_order(subject: &Subject) {
    let holders = [subject.contender("a"), subject.contender("c")];
    for holder in &holders {
        holder.acquire().await.unwrap();
    }
    let names: Vec<_> = ["c", "b", "a", "c"].map(Arc::from).into();
    let answer = subject.contender("unused").ask(Op::Inspect(names.into())).await;
    let Ok(Answer::Inspected(found)) = answer else { panic!("no keys: {answer:?}") };
    let nonces: Vec<_> =
        found.iter().map(|key| Some(key.as_ref()?.lease.as_ref()?.nonce)).collect();
    let [a, c] = holders.map(|holder| Some(holder.lease().nonce()));
    assert_eq!(nonces, [c, None, a, c]);
}

async fn kinds_are_scanned_separately(subject: &Subject) {
    let lock = subject.contender("done:a");
    lock.acquire().await.unwrap();
    let done = subject.contender("lock:b");
    done.acquire().await.unwrap();
    let record = done.record(true, b"");
    done.has_kept(&record, Duration::from_secs(60)).await.unwrap();
    done.release().await.unwrap();
    let job = subject.contender("unused");
    for op in [prepare("done:c", 1), claim("done:c", &of_tick(1, 1))] {
        job.ask(op).await.unwrap();
    }
    for (kind, name) in ScanKind::ALL.into_iter().zip(["done:a", "lock:b", "done:c"]) {
        assert_eq!(scan(subject, kind, 100).await.0, [name]);
    }
}

async fn ended_lock_is_not_scanned(subject: &Subject) {
    let lock = subject.contender(["a", "b"]);
    lock.acquire().await.unwrap();
    assert_eq!(scan(subject, ScanKind::Locks, 100).await.0, ["a", "b"]);
    lock.release().await.unwrap();
    assert_eq!(scan(subject, ScanKind::Locks, 100).await.0, Vec::<String>::new());
}

async fn promised_job_is_not_scanned(subject: &Subject) {
    subject.contender("unused").ask(prepare("a", 1)).await.unwrap();
    assert_eq!(scan(subject, ScanKind::Jobs, 100).await.0, Vec::<String>::new());
}

#[tokio::test]
async fn keys_of_others_are_not_scanned() {
    let subject = Subject::server().await;
    let redis = subject.redis();
    redis.cli(&["HSET", "redlock:lock:hash", "a", "1"]);
    redis.cli(&[&b"SET"[..], b"redlock:lock:\xff", b"1"]);
    redis.set("redlockXlock:other", "1");
    redis.set("redlock:lock:string", "1");
    // A key of another type shows as one that another program wrote.
    assert_eq!(scan(&subject, ScanKind::Locks, 100).await.0, ["hash", "string"]);
}

#[tokio::test]
async fn many_jobs_are_scanned_in_pages() {
    let subject = Subject::server().await;
    let asked = subject.contender("unused");
    let expected: BTreeSet<_> = (0..1_500).map(|i| format!("job {i}")).collect();
    for name in &expected {
        asked.ask(prepare(name, 1)).await.unwrap();
        asked.ask(claim(name, &of_tick(1, 1))).await.unwrap();
    }
    let (mut names, pages) = scan(&subject, ScanKind::Jobs, 100).await;
    assert!(pages >= 10, "{pages} pages");
    names.dedup();
    assert_eq!(names, expected.into_iter().collect::<Vec<_>>());
}
