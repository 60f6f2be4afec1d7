//! Records of work: which contender may store them, and which record remains.

use std::{sync::Arc, time::Duration};

use tower_redlock::{
    error::Reason,
    node::{Answer, ForgetOp, Op, Record, RecordOp, RepairOp, StoredLease},
};

use super::contender::released;
use super::{
    Contender, Subject,
    contender::{Response, TTL, soon},
    granted,
};

const RETAIN: Duration = Duration::from_secs(3600);

on_both! {
    holders_record_is_readable_by_all
    without_the_lock_nothing_is_kept
    done_stays_and_begun_is_replaced
    repair_adds_only_missing_done_records
    forgetting_needs_the_own_nonce
    records_expire
    payloads_may_be_any_bytes
    lock_and_record_are_separate
}

impl Contender {
    pub(super) fn record(&self, is_done: bool, payload: &[u8]) -> Arc<Record> {
        let lease = self.lease();
        let stored = StoredLease::new(lease.nonce(), 7, lease.since(), Arc::clone(lease.owner()));
        Arc::new(Record::new(is_done, stored, payload.into()))
    }

    pub(super) async fn has_kept(&self, record: &Arc<Record>, retain: Duration) -> Response {
        self.ask(Op::Record(RecordOp::new(
            Arc::clone(self.lease()),
            Arc::clone(record),
            retain,
            soon(),
            Duration::from_secs(30),
        )))
        .await
    }

    async fn reads(&self) -> Response {
        self.ask(Op::ReadRecord(self.name())).await
    }

    async fn repairs(&self, record: &Arc<Record>) -> Response {
        let record = Arc::clone(record);
        self.ask(Op::Repair(RepairOp::new(self.name(), record, RETAIN))).await
    }

    async fn forgets(&self) -> Response {
        self.ask(Op::Forget(ForgetOp::new(self.name(), self.lease().nonce()))).await
    }

    fn name(&self) -> Arc<str> {
        self.lease().resource().names().next().expect("one name").into()
    }
}

const NOTHING: Response = Ok(Answer::Recorded(None));

#[track_caller]
fn assert_kept(response: &Response, record: &Arc<Record>) {
    let Ok(Answer::Recorded(Some((kept, remaining)))) = response else { panic!("{response:?}") };
    assert_eq!(kept, record);
    let least = RETAIN.saturating_sub(Duration::from_secs(60));
    assert!((least..=RETAIN).contains(remaining), "{remaining:?}");
}

async fn holders_record_is_readable_by_all(subject: &Subject) {
    let (ours, other) = (subject.contender("a"), subject.contender("a"));
    let record = ours.record(true, b"");
    assert_eq!(other.reads().await, NOTHING);
    assert_eq!(ours.acquire().await, granted(false, 0));
    assert_kept(&ours.has_kept(&record, RETAIN).await, &record);
    assert_kept(&other.reads().await, &record);
    ours.release().await.unwrap();
    assert_kept(&other.reads().await, &record);
    assert_eq!(subject.contender("b").reads().await, NOTHING);
}

async fn without_the_lock_nothing_is_kept(subject: &Subject) {
    let (ours, other) = (subject.contender("a"), subject.contender("a"));
    let gone: Response = Err(Reason::KeyGone);
    assert_eq!(ours.has_kept(&ours.record(true, b""), RETAIN).await, gone);
    other.acquire().await.unwrap();
    assert_eq!(ours.has_kept(&ours.record(true, b""), RETAIN).await, gone);
    other.release().await.unwrap();
    assert_eq!(other.has_kept(&other.record(false, b""), RETAIN).await, gone);
    assert_eq!(ours.reads().await, NOTHING);
}

async fn done_stays_and_begun_is_replaced(subject: &Subject) {
    let (first, second, third) =
        (subject.contender("a"), subject.contender("a"), subject.contender("a"));
    let begun = first.record(false, b"");
    first.acquire().await.unwrap();
    assert_kept(&first.has_kept(&begun, RETAIN).await, &begun);
    first.release().await.unwrap();
    // Another contender begins, and completes.
    second.acquire().await.unwrap();
    let begun = second.record(false, b"");
    assert_kept(&second.has_kept(&begun, RETAIN).await, &begun);
    let done = second.record(true, b"made");
    assert_kept(&second.has_kept(&done, RETAIN).await, &done);
    // It may replace its own record.
    let done = second.record(true, b"made, and more");
    assert_kept(&second.has_kept(&done, RETAIN).await, &done);
    second.release().await.unwrap();
    third.acquire().await.unwrap();
    for is_done in [false, true] {
        assert_kept(&third.has_kept(&third.record(is_done, b""), RETAIN).await, &done);
    }
    assert_kept(&first.reads().await, &done);
}

async fn repair_adds_only_missing_done_records(subject: &Subject) {
    let (ours, other) = (subject.contender("a"), subject.contender("a"));
    other.acquire().await.unwrap();
    let begun = other.record(false, b"");
    assert_kept(&other.has_kept(&begun, RETAIN).await, &begun);
    let done = ours.record(true, b"payload");
    assert_kept(&ours.repairs(&done).await, &done);
    assert_kept(&other.repairs(&other.record(true, b"")).await, &done);
    assert_kept(&ours.reads().await, &done);
}

async fn forgetting_needs_the_own_nonce(subject: &Subject) {
    let (ours, other) = (subject.contender("a"), subject.contender("a"));
    let existed = |existed| Ok(Answer::Forgotten(existed));
    assert_eq!(ours.forgets().await, existed(false));
    ours.acquire().await.unwrap();
    let record = ours.record(false, b"");
    ours.has_kept(&record, RETAIN).await.unwrap();
    assert_eq!(other.forgets().await, existed(false));
    assert_kept(&other.reads().await, &record);
    assert_eq!(ours.forgets().await, existed(true));
    assert_eq!(ours.forgets().await, existed(false));
    assert_eq!(ours.reads().await, NOTHING);
}

async fn records_expire(subject: &Subject) {
    let ours = subject.contender("a");
    ours.acquire_for(TTL).await.unwrap();
    ours.has_kept(&ours.record(true, b""), Duration::from_millis(1)).await.unwrap();
    crate::fixture::eventually_async("the record expires", async || ours.reads().await == NOTHING)
        .await;
    assert_eq!(ours.forgets().await, Ok(Answer::Forgotten(false)));
}

async fn payloads_may_be_any_bytes(subject: &Subject) {
    let all: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    for (i, payload) in [&b""[..], b"\n", b"\n\nd x\r\n", b"\0", &all].into_iter().enumerate() {
        let ours =
            subject.contender_named("Ow ner: ä\u{2028}1 2 3", &*format!("name {i} \u{e4}:*"));
        ours.acquire().await.unwrap();
        let record = ours.record(true, payload);
        assert_kept(&ours.has_kept(&record, RETAIN).await, &record);
        assert_kept(&ours.reads().await, &record);
    }
}

async fn lock_and_record_are_separate(subject: &Subject) {
    let (ours, other) = (subject.contender("a"), subject.contender("a"));
    ours.acquire().await.unwrap();
    ours.has_kept(&ours.record(true, b""), RETAIN).await.unwrap();
    assert_eq!(ours.release().await, released(true, false));
    assert_eq!(other.acquire().await, granted(false, 0));
    assert_eq!(ours.forgets().await, Ok(Answer::Forgotten(true)));
    assert_eq!(other.release().await, released(true, false));
}

#[tokio::test]
async fn foreign_value_is_a_protocol_error() {
    let subject = Subject::server().await;
    for value in ["", "x", "done by hand", "d\n", "d 0123456789abcdef0123456789abcdef 7 0\n"] {
        subject.redis().set("redlock:done:a", value);
        let response = subject.contender("a").reads().await;
        assert!(matches!(response, Err(Reason::Protocol(_))), "{value:?}: {response:?}");
        assert_eq!(subject.redis().get("redlock:done:a").unwrap(), value.as_bytes());
    }
}
