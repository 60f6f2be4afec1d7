//! Fuzz targets for the answers of servers, and for the URLs that name servers.

#![allow(clippy::missing_panics_doc, reason = "a panic is a broken promise")]

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use ::redis::Value;
use futures_util::FutureExt;

use super::{
    Endpoint, claim_text,
    decode::{Decoded, decode, lease_of, record},
    directory,
    encode::Keys,
    enrol::{self, Tag},
    handshake, permissions,
    server_traits::Probe,
    settings::RestartGuard,
    values,
    wire::fuzzing::replies,
};
use crate::{
    error::{BuildError, Reason},
    protocol::{
        AcquireOp, Answer, ClaimOp, ExtendOp, ForgetJobOp, ForgetOp, GrantedAnswer, LeaseId, Nonce,
        Op, PrepareOp, RaiseOp, RaisedAnswer, Record, RecordOp, RepairOp, ScanKind, ScanOp,
        StoredLease, TickClaim, TickRun, views::Incarnation,
    },
    resource::Resource,
    time::Timestamp,
};

pub use super::wire::fuzzing::resp;

/// One operation of each kind.
static OPS: LazyLock<Vec<Op>> = LazyLock::new(|| {
    let nonce = Nonce::from_bytes([1; 16]);
    let (ttl, max_delay, until) = (Duration::from_secs(1), Duration::ZERO, Timestamp::MAX);
    let resource = Resource::new(["a", "b"]).expect("valid names");
    let lease = || Arc::new(LeaseId::new(resource.clone(), nonce, "me".into(), Duration::ZERO));
    let stored = StoredLease::new(nonce, 1, Duration::ZERO, "me".into());
    let record = Arc::new(Record::new(true, stored, Arc::default()));
    let run = TickRun::new(Duration::ZERO, 1, Duration::ZERO);
    let claim = Arc::new(TickClaim::new(1, run, "me".into(), None));
    vec![
        Op::Acquire(AcquireOp::new(lease(), ttl, until).fencing(1_000, 2_000)),
        Op::Raise(RaiseOp::new(lease(), 1_000, 2_000)),
        Op::Extend(ExtendOp { lease: lease(), ttl, token: 1, until, max_delay }),
        Op::Release(lease()),
        Op::EndShared("a".into()),
        Op::Withdraw(lease()),
        Op::Inspect(["a".into(), "b".into()].into()),
        Op::Prepare(PrepareOp::new("a".into(), 1, max_delay)),
        Op::Claim(ClaimOp::new("a".into(), claim, max_delay)),
        Op::Claims(vec!["a".into(), "b".into()].into()),
        Op::Scan(ScanOp::new(ScanKind::Jobs, None, 10)),
        Op::ReadRecord("a".into()),
        Op::Record(RecordOp::new(lease(), Arc::clone(&record), ttl, until, max_delay)),
        Op::Repair(RepairOp::new("a".into(), record, ttl)),
        Op::Forget(ForgetOp::new("a".into(), nonce)),
        Op::ForgetJob(ForgetJobOp::new("a".into(), 1, max_delay)),
    ]
});

/// Decodes replies as the answers to operations, to the commands of a connection, to queries for a
/// location, and to the queries of a node in probation.
///
/// Each operation is answered once, and only by an answer of its kind. Error texts are short, and
/// contain neither nonces nor control characters.
pub fn answers(data: &[u8]) {
    let values = replies(data, data.len()).values;
    for value in &values {
        OPS.iter().for_each(|op| answer(op, value.clone()));
    }
    values.iter().for_each(enrol::fuzzing::learnt);
    greeting(&values);
    let tag = Tag::new("");
    for restart in [RestartGuard::Probation, RestartGuard::Off] {
        let parsed = handshake::parse_report(&mut values.clone().into_iter(), &tag, restart);
        if let Ok(Ok(report)) = parsed {
            assert!(!report.is_replica && report.run.len() == 32);
            incarnation(&report.tag);
        }
    }
    directory::fuzzing::places(&values).iter().for_each(is_presentable);
    let two = values.iter().take(2).cloned().collect();
    let _ = permissions::answer(two);
}

/// Reads replies as the answers to a greeting.
fn greeting(values: &[Value]) {
    let probe = Probe::take(&mut values.to_vec());
    let version = handshake::version(probe.server());
    for guard in [RestartGuard::Probation, RestartGuard::Off] {
        match version.clone().and_then(|(version, number)| probe.traits(version, number, guard)) {
            Ok(traits) => assert!(traits.limits.len() <= 1),
            // No nonce was sent yet, so such digits belong to the version.
            Err(reason) => drop(is_short(&reason)),
        }
    }
    let errors = ["redlock", "{redlock}"].map(|prefix| probe.check_mode(prefix).err());
    let first = || values.first().cloned().unwrap_or(Value::Nil);
    let others = [values::digest(first()).err(), values::read_time(first()).err()];
    errors.iter().chain(&others).flatten().for_each(is_presentable);
}

fn answer(op: &Op, value: Value) {
    let Ok(decoded) = decode(&Keys::new("redlock"), op, value) else { return };
    let Decoded { result, granted, .. } = decoded;
    let grants = matches!(op, Op::Acquire(_) | Op::Raise(_) | Op::Extend(_));
    assert!(grants || !granted, "{op:?}");
    match result {
        Ok(answer) => assert!(fits(op, &answer, granted), "{answer:?} to {op:?}"),
        Err(reason) => is_presentable(&reason),
    }
}

/// Returns whether the operation can have this kind of answer.
fn fits(op: &Op, answer: &Answer, granted: bool) -> bool {
    match answer {
        Answer::Granted(GrantedAnswer { accepted, fence }) => {
            granted && matches!(op, Op::Acquire(op) if *accepted == (*fence < op.token))
        }
        Answer::Raised(RaisedAnswer { accepted, fence }) => {
            granted && matches!(op, Op::Raise(op) if *accepted == (*fence < op.token))
        }
        Answer::Extended(_) => matches!(op, Op::Extend(_)),
        Answer::Held(_) => !granted && matches!(op, Op::Acquire(_) | Op::Extend(_)),
        Answer::Released(_) => matches!(op, Op::Release(_) | Op::EndShared(_)),
        Answer::Withdrawn(_) => matches!(op, Op::Withdraw(_)),
        Answer::Inspected(found) => {
            matches!(op, Op::Inspect(names) if names.len() == found.len())
        }
        Answer::Scanned(_) => matches!(op, Op::Scan(_)),
        Answer::Promised(_) => matches!(op, Op::Prepare(_)),
        Answer::Claimed => matches!(op, Op::Claim(_)),
        Answer::Claims(answer) => {
            matches!(op, Op::Claims(jobs) if jobs.len() == answer.claims.len())
        }
        Answer::Recorded(_) => matches!(op, Op::ReadRecord(_) | Op::Record(_) | Op::Repair(_)),
        Answer::Forgotten(_) => matches!(op, Op::Forget(_) | Op::ForgetJob(_)),
    }
}

/// Maximum length of an error's text, in bytes: 1,000 escaped characters.
const MAX_TEXT: usize = 6_200;

fn is_presentable(reason: &Reason) {
    let shown = is_short(reason);
    let has_nonce = shown.as_bytes().split(|byte| !byte.is_ascii_hexdigit());
    assert!(has_nonce.map(<[u8]>::len).all(|digits| digits < 32), "{shown}");
}

fn is_short(reason: &Reason) -> String {
    let shown = reason.to_string();
    assert!(shown.len() <= MAX_TEXT, "{} bytes of text", shown.len());
    assert!(!shown.contains(char::is_control), "{shown:?}");
    shown
}

fn incarnation(tag: &Tag) {
    assert!(tag.text().starts_with(tag.enrolment()) && tag.text().contains(tag.layout()));
    if let Some(incarnation) = tag.incarnation() {
        assert_eq!(Incarnation::parse(&incarnation.to_string()), Some(incarnation));
    }
}

/// Reads a stored value as a lock's key, as a record, and as a job's claim. Writing and reading the
/// result again gives the same result.
pub fn stored(data: &[u8]) {
    let in_text = |lease: &StoredLease| {
        let StoredLease { nonce, token, since, owner } = lease;
        let nonce = String::from_utf8(nonce.to_hex().to_vec()).expect("digits");
        format!("{nonce} {token} {} {owner}", since.as_millis())
    };
    if let Some(record) = record(&Value::BulkString(data.to_vec())) {
        assert!(!record.lease.owner.contains('\n'));
        let state = if record.is_done { 'd' } else { 'u' };
        let head = format!("{state} {}\n", in_text(&record.lease));
        let again = [head.as_bytes(), &record.payload].concat();
        assert_eq!(super::decode::record(&Value::BulkString(again)), Some(record));
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Some(lease) = lease_of(text) {
        assert_eq!(lease_of(&in_text(&lease)), Some(lease));
    }
    if let Some(claim) = claim_text::read(text) {
        let mut again = Vec::new();
        claim_text::write(&mut again, &claim);
        let again = String::from_utf8(again).expect("text");
        assert_eq!(claim_text::read(&again), Some(claim));
    }
    if let Some(incarnation) = Incarnation::parse(text) {
        assert_eq!(Incarnation::parse(&incarnation.to_string()), Some(incarnation));
    }
    incarnation(&Tag::new(text));
}

/// A password that does not occur in any URL.
const PASSWORD: &str = "QZXpasswordXZQ";

/// Reads a server's URL, with a password inserted at the place that the first byte gives.
///
/// The name of the server leads to the same server. Only a part that the parser reads as the
/// password may contain it, and no error contains it.
pub fn urls(data: &[u8]) {
    let Some((&place, rest)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    let Some((before, after)) = text.split_at_checked(place.into()) else { return };
    if let Ok(endpoint) = Endpoint::parse(1, text) {
        let named = match endpoint.name.rsplit_once('/') {
            // The database of a Unix socket is a parameter.
            Some((path, database)) if path.starts_with('/') => {
                format!("redis+unix://{path}?db={database}")
            }
            _ => format!("redis://{}", endpoint.name),
        };
        assert!(!endpoint.name.contains(char::is_control), "{endpoint:?}");
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "/.-_".contains(c);
        // A colon precedes the port of a host, but is a part of the path of a socket.
        let plain = match endpoint.name.rsplit_once(':') {
            Some((host, _)) if !endpoint.name.starts_with('/') => host,
            _ => &*endpoint.name,
        };
        if plain.chars().all(is_plain) {
            let again = Endpoint::parse(1, &named).expect("a valid name");
            assert_eq!((again.name, again.database), (endpoint.name, endpoint.database));
        }
    }
    match Endpoint::parse(1, &[before, PASSWORD, after].concat()) {
        Ok(endpoint) => {
            let credentials = endpoint.credentials.as_ref();
            let credentials = credentials.and_then(|it| it.resolve().now_or_never()?.ok());
            let user = credentials.and_then(|login| login.username).unwrap_or_default();
            let is_shown = [&endpoint.name, &user].map(|part| part.to_ascii_lowercase());
            let is_shown =
                is_shown.iter().any(|part| part.contains(&PASSWORD.to_ascii_lowercase()));
            let shown = format!("{endpoint:?}");
            assert!(is_shown || !shown.contains(PASSWORD), "{shown}");
        }
        Err(error) => {
            assert!(matches!(error, BuildError::InvalidUrl { .. }), "{error}");
            assert!(!format!("{error} {error:?}").contains(PASSWORD), "{error}");
        }
    }
}
