//! Answer → vote.

use std::{sync::Arc, time::Duration};

use ::redis::Value;

use super::{
    claim_text,
    encode::Keys,
    request::NodeRequest,
    server_error::{reason, unexpected},
};
use crate::{
    error::Reason,
    protocol::{
        AcquireOp, Answer, ClaimsAnswer, GrantedAnswer, HeldAnswer, LeaseId, Nonce, Op,
        PromisedAnswer, RaisedAnswer, Record, ReleasedAnswer, ScannedAnswer, Stored, StoredLease,
        TickClaim,
    },
    time::MAX_DURATION,
};

/// The decoded reply to one operation.
#[derive(Debug, PartialEq)]
pub(super) struct Decoded {
    pub(super) result: Result<Answer, Reason>,
    /// The server's clock in µs since the Unix epoch, if the reply contains it.
    pub(super) server_micros: Option<u64>,
    /// Whether the operation stored keys, now or in an earlier run whose reply was lost.
    pub(super) granted: bool,
}

impl Decoded {
    /// Creates one without a reading of the clock.
    fn timeless(result: Result<Answer, Reason>) -> Self {
        Self { result, server_micros: None, granted: false }
    }
}

/// Why a reply answers none of the operations of its call.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unanswered {
    /// The server lacks the script; nothing ran. They are sent again with its text.
    NoScript,
    /// One operation may have failed the call for all, for example by a denied key. Running each of
    /// them again, apart, is harmless: their nonces identify them.
    Failed,
    /// It answers another call, as do those behind it. The operations may have run.
    OtherCall,
}

/// Decodes the reply to a group of operations, in order.
pub(super) fn decode(
    keys: &Keys,
    group: &[NodeRequest],
    value: Value,
) -> Result<Vec<Decoded>, Unanswered> {
    let all = |result: Result<Answer, Reason>| {
        Ok(group.iter().map(|_| Decoded::timeless(result.clone())).collect())
    };
    let items = match value {
        Value::Array(items) => items,
        Value::ServerError(error) if error.code() == "NOSCRIPT" => {
            return Err(Unanswered::NoScript);
        }
        Value::ServerError(error) => {
            let reason = reason(&error);
            let of_the_server = matches!(
                reason,
                Reason::Loading | Reason::ReadOnly | Reason::Auth(_) | Reason::Busy
            );
            if group.len() > 1 && !of_the_server {
                return Err(Unanswered::Failed);
            }
            return all(Err(reason));
        }
        other => return all(Err(unexpected(&other))),
    };
    if let Op::Scan(scan) = &group[0].op {
        return all(scanned(items, keys.prefix_of(scan.kind)));
    }
    // Acquires and releases are answered by a list of answers, others by a single one.
    let Some(head) = head(group) else {
        return Ok(vec![one(&group[0].op, Value::Array(items))]);
    };
    let found = items.first().and_then(read_head);
    if found.is_some_and(|found| found != head) {
        return Err(Unanswered::OtherCall);
    }
    let micros = items.get(1).and_then(int);
    let micros = micros.filter(|_| found.is_some() && items.len() == 2 + group.len());
    let Some(micros) = micros else { return all(Err(unexpected(&Value::Array(items)))) };
    let answers = group.iter().zip(items.into_iter().skip(2));
    Ok(answers.map(|(request, item)| shared(&request.op, item, micros)).collect())
}

/// What names a call in its answer: whether it only releases, and the nonce of its first acquire or, if
/// it has none, of its first release. So the call that releases a lease has another name than the one
/// that acquired it.
type Head = (bool, [u8; 32]);

/// The head of the answer to acquires and releases.
fn head(group: &[NodeRequest]) -> Option<Head> {
    let acquired = group.iter().find_map(|request| match &request.op {
        Op::Acquire(AcquireOp { lease, .. }) => Some(lease),
        _ => None,
    });
    match (acquired, &group[0].op) {
        (Some(lease), _) => Some((false, lease.nonce().to_hex())),
        (None, Op::Release(lease)) => Some((true, lease.nonce().to_hex())),
        _ => None,
    }
}

fn read_head(value: &Value) -> Option<Head> {
    let Value::BulkString(text) = value else { return None };
    let nonce = text.strip_prefix(b"-");
    let digits: [u8; 32] = nonce.unwrap_or(text).try_into().ok()?;
    digits.iter().all(u8::is_ascii_hexdigit).then_some((nonce.is_some(), digits))
}

/// Decodes the answer to an acquire or a release, of a call at that time.
fn shared(op: &Op, value: Value, micros: u64) -> Decoded {
    let server_micros = Some(micros);
    let (result, granted) = match (op, int(&value)) {
        (Op::Acquire(op), Some(fence)) if fence < op.token => {
            (Ok(Answer::Granted(GrantedAnswer { accepted: true, fence })), true)
        }
        (Op::Release(lease), Some(deleted)) => (released(lease, Some(deleted), false), false),
        _ => return Decoded { server_micros, ..one(op, value) },
    };
    Decoded { result, server_micros, granted }
}

fn released(lease: &LeaseId, deleted: Option<u64>, awaited: bool) -> Result<Answer, Reason> {
    let names = lease.resource().shared_names().len();
    match deleted.and_then(|count| usize::try_from(count).ok()) {
        Some(deleted) if deleted <= names => {
            Ok(Answer::Released(ReleasedAnswer { existed: deleted == names, awaited }))
        }
        _ => Err(Reason::Protocol("a number of released keys that the lock does not have".into())),
    }
}

fn one(op: &Op, value: Value) -> Decoded {
    let items = match value {
        Value::Array(items) => items,
        Value::ServerError(error) => return Decoded::timeless(Err(reason(&error))),
        other => return Decoded::timeless(Err(unexpected(&other))),
    };
    if let Op::Inspect(names) = op {
        return Decoded::timeless(inspected(names, items));
    }
    let int = |i: usize| items.get(i).and_then(int);
    let code = int(0).unwrap_or(0);
    let result = match (code, op, int(2)) {
        (9, Op::Release(lease), deleted) => released(lease, deleted, true),
        (_, Op::Release(_), _) => Err(unexpected(&Value::Array(items.clone()))),
        (2, Op::Acquire(op), Some(fence)) if fence >= op.token => {
            Ok(Answer::Granted(GrantedAnswer { accepted: false, fence }))
        }
        (1 | 2, Op::Raise(op), Some(fence)) if (fence < op.token) == (code == 1) => {
            Ok(Answer::Raised(RaisedAnswer { accepted: code == 1, fence }))
        }
        (3, Op::Acquire(_) | Op::Extend(_), Some(fence)) => Ok(Answer::Held(HeldAnswer {
            owner: items.get(3).and_then(owner),
            remaining: int(4).map(Duration::from_millis),
            fence,
            lingers: items.get(3).and_then(linger_mark) == Some(b'\t'),
        })),
        (1, Op::Prepare(_), Some(floor)) if items.len() == 4 => claim(items.get(3))
            .map(|claim| Answer::Promised(PromisedAnswer { floor, claim: claim.map(Box::new) })),
        (1, Op::Claim(_), Some(_)) if items.len() == 4 => Ok(Answer::Claimed),
        (1, Op::Claims(jobs), Some(floor)) => match items.get(3) {
            Some(Value::Array(claims)) if claims.len() == jobs.len() => {
                let claims: Result<_, _> = claims.iter().map(|item| claim(Some(item))).collect();
                claims.map(|claims| Answer::Claims(ClaimsAnswer { floor, claims }))
            }
            _ => Err(unexpected(&Value::Array(items.clone()))),
        },
        // Only a question may find no record.
        (1, Op::Record(_) | Op::Repair(_), _) if items.len() < 4 => {
            Err(unexpected(&Value::Array(items.clone())))
        }
        (1, Op::ReadRecord(_) | Op::Record(_) | Op::Repair(_), _) if int(1).is_some() => {
            recorded(&items).map(Answer::Recorded)
        }
        (1, Op::Forget(_) | Op::ForgetJob(_), Some(deleted)) => Ok(Answer::Forgotten(deleted > 0)),
        (4, ..) => Err(Reason::WrongTag { found: items.get(2).map(text).unwrap_or_default() }),
        (5, ..) => Err(Reason::Late),
        (6, Op::Acquire(_) | Op::Raise(_), _) => Err(Reason::TokenAhead),
        (7, Op::Raise(_) | Op::Record(_), _) => Err(Reason::KeyGone),
        (8 | 10, Op::Extend(_), _) => Ok(Answer::Extended),
        (12, Op::Acquire(_) | Op::Extend(_), _) => Err(Reason::TtlTooLong),
        (13, Op::Prepare(_) | Op::Claim(_) | Op::ForgetJob(_), _) => Err(Reason::Superseded),
        (14, Op::Prepare(_) | Op::Claim(_), _) => Err(Reason::TooManyJobs),
        (15, Op::ReadRecord(_), _) => Err(Reason::Incomplete),
        _ => Err(unexpected(&Value::Array(items.clone()))),
    };
    let stores = match op {
        Op::Acquire(_) => code == 2,
        Op::Raise(_) => true,
        Op::Extend(_) => code == 10,
        _ => false,
    };
    let granted = stores && result.is_ok();
    Decoded { result, server_micros: int(1), granted }
}

fn inspected(names: &[Arc<str>], items: Vec<Value>) -> Result<Answer, Reason> {
    if items.len() == 2 * names.len() {
        Ok(Answer::Inspected(items.chunks(2).map(stored).collect()))
    } else {
        Err(unexpected(&Value::Array(items)))
    }
}

/// A value, and for how long it is kept.
fn stored(items: &[Value]) -> Option<Stored> {
    let remaining = items.get(1).and_then(int).map(Duration::from_millis);
    // As in `lease_of`.
    let awaited =
        |value: &Value| matches!(value, Value::BulkString(bytes) if bytes.ends_with(b"\n"));
    let value = items.first().filter(|value| !matches!(value, Value::Nil))?;
    let lease = lease(value);
    let (awaited, lingers) = (lease.is_some() && awaited(value), linger_mark(value).is_some());
    Some(Stored::new(lease, remaining).awaited(awaited).lingering(lingers))
}

/// Returns the mark of a lease that may linger: a carriage return behind the owner, or a tab once a
/// process asked the owner for the lease.
fn linger_mark(value: &Value) -> Option<u8> {
    let Value::BulkString(bytes) = value else { return None };
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let mark = bytes.last().copied().filter(|mark| matches!(mark, b'\r' | b'\t'));
    mark.filter(|_| lease(value).is_some())
}

/// Parses a page: its cursor, and keys that begin with a prefix. Others, and those that are no UTF-8,
/// are not ours.
fn scanned(items: Vec<Value>, prefix: &str) -> Result<Answer, Reason> {
    let [cursor, Value::Array(keys)] = &items[..] else {
        return Err(unexpected(&Value::Array(items)));
    };
    let name = |key: &Value| match key {
        Value::BulkString(key) => {
            std::str::from_utf8(key).ok()?.strip_prefix(prefix).map(Into::into)
        }
        _ => None,
    };
    let next = Some(text(cursor)).filter(|cursor| !matches!(&**cursor, "0" | ""));
    Ok(Answer::Scanned(ScannedAnswer::new(keys.iter().filter_map(name).collect(), next)))
}

fn owner(value: &Value) -> Option<Arc<str>> {
    lease(value).map(|lease| lease.owner)
}

/// Parses a key's value; `None` if this crate did not write it.
fn lease(value: &Value) -> Option<StoredLease> {
    let Value::BulkString(bytes) = value else { return None };
    lease_of(std::str::from_utf8(bytes).ok()?)
}

pub(super) fn lease_of(text: &str) -> Option<StoredLease> {
    // Marks of a waiter and of a lease that may linger; owners contain no control characters.
    let text = text.trim_end_matches(['\n', '\r', '\t']);
    let mut parts = text.splitn(4, ' ');
    let nonce = Nonce::from_hex(parts.next()?)?;
    let token = parts.next()?.parse().ok()?;
    let since = Duration::from_millis(parts.next()?.parse().ok()?);
    Some(StoredLease::new(nonce, token, since, parts.next()?.into()))
}

/// Parses a record and its remaining time; without a TTL it never expires. A foreign value is an
/// error, as a record may be hidden behind it.
fn recorded(items: &[Value]) -> Result<Option<(Arc<Record>, Duration)>, Reason> {
    let Some(value) = items.get(2) else { return Ok(None) };
    let record = record(value).ok_or_else(|| unexpected(value))?;
    let remaining = items.get(3).and_then(int).map_or(MAX_DURATION, Duration::from_millis);
    Ok(Some((Arc::new(record), remaining)))
}

/// Parses a record; `None` if this crate did not write it.
pub(super) fn record(value: &Value) -> Option<Record> {
    let Value::BulkString(bytes) = value else { return None };
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let (head, payload) = (std::str::from_utf8(&bytes[..end]).ok()?, &bytes[end + 1..]);
    let (state, lease) = head.split_once(' ')?;
    Some(Record::new(state == "d", lease_of(lease)?, payload.into()))
}

/// Parses a job's claim, if any. A foreign value is an error.
fn claim(value: Option<&Value>) -> Result<Option<TickClaim>, Reason> {
    let Some(value) = value.filter(|value| **value != Value::Nil) else { return Ok(None) };
    let Value::BulkString(bytes) = value else { return Err(unexpected(value)) };
    let claim = std::str::from_utf8(bytes).ok().and_then(claim_text::read);
    claim.map(Some).ok_or_else(|| unexpected(value))
}

/// Returns a non-negative integer.
pub(super) fn int(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        _ => None,
    }
}

/// Returns a string; empty for other values.
pub(super) fn text(value: &Value) -> Arc<str> {
    match value {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into(),
        Value::SimpleString(text) => text.as_str().into(),
        _ => "".into(),
    }
}

/// Returns the items of the last reply, which has to be a list.
pub(super) fn list(mut replies: Vec<Value>) -> Result<Vec<Value>, Reason> {
    match replies.pop() {
        Some(Value::Array(items)) => Ok(items),
        Some(Value::ServerError(error)) => Err(reason(&error)),
        _ => Err(Reason::Protocol("a list was expected".into())),
    }
}

#[cfg(test)]
mod tests {
    use std::iter;

    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::{
        node::Reply,
        protocol::{AcquireOp, ExtendOp, ForgetJobOp, LeaseId, PrepareOp, RaiseOp},
        resource::Resource,
        time::Timestamp,
    };

    /// The token that the acquire and the raise request.
    const TOKEN: i64 = 10;

    fn ops() -> Vec<Op> {
        let lease = || {
            let (resource, nonce) = (Resource::try_from("a").unwrap(), Nonce::from_bytes([1; 16]));
            Arc::new(LeaseId::new(resource, nonce, "me".into(), Duration::ZERO))
        };
        let (ttl, patience) = (Duration::from_secs(1), Duration::ZERO);
        vec![
            Op::Acquire(AcquireOp {
                lease: lease(),
                ttl,
                token: TOKEN.unsigned_abs(),
                block_end: 20,
                expires: Timestamp::MAX,
                patience,
                waits: false,
            }),
            Op::Raise(RaiseOp::new(lease(), TOKEN.unsigned_abs(), 20)),
            Op::Extend(ExtendOp { lease: lease(), ttl, token: 1, until: Timestamp::MAX, patience }),
            Op::Release(lease()),
            Op::Inspect([Arc::from("a")].into()),
            Op::Prepare(PrepareOp { job: "a".into(), token: 1, patience }),
            Op::ForgetJob(ForgetJobOp::new("a".into(), 1, patience)),
            Op::ReadRecord("a".into()),
            Op::Claims(vec!["a".into(), "b".into()].into()),
        ]
    }

    /// Replies of any form, most of them lists that begin as ours do.
    fn replies() -> impl Strategy<Value = Value> {
        let text = prop_oneof![
            vec(any::<u8>(), 0..40),
            "[0-9a-f]{32} [0-9]{0,14} .{0,8}".prop_map(String::into_bytes),
            "[0-9]{0,20}( [0-9-]{0,20}){0,9}".prop_map(String::into_bytes),
        ];
        let leaf = prop_oneof![
            Just(Value::Nil),
            Just(Value::Okay),
            (-1_i64..17).prop_map(Value::Int),
            any::<i64>().prop_map(Value::Int),
            text.prop_map(Value::BulkString),
        ];
        let any = leaf.prop_recursive(3, 24, 6, |inner| vec(inner, 0..6).prop_map(Value::Array));
        let ours = (0_i64..17, vec(any.clone(), 0..6)).prop_map(|(code, mut items)| {
            items.insert(0, Value::Int(code));
            Value::Array(items)
        });
        prop_oneof![1 => any, 4 => ours]
    }

    fn call(ops: &[&Op]) -> Vec<NodeRequest> {
        let request =
            |op: &&Op| NodeRequest::new((*op).clone(), Reply::from_fn(|_| {}), &Arc::default());
        ops.iter().map(request).collect()
    }

    fn decode_all(ops: &[&Op], items: Vec<Value>) -> Result<Vec<Decoded>, Unanswered> {
        decode(&Keys::new("redlock"), &call(ops), Value::Array(items))
    }

    /// The head of the answer to a call of these.
    fn head_of(ops: &[&Op]) -> Value {
        let (only_releases, nonce) = head(&call(ops)).expect("acquires or releases");
        Value::BulkString([if only_releases { "-".as_bytes() } else { b"" }, &nonce].concat())
    }

    fn decoded(op: &Op, answer: Value) -> Decoded {
        decode_all(&[op], vec![head_of(&[op]), Value::Int(5), answer]).unwrap().remove(0)
    }

    fn is_unexpected(decoded: &Decoded) -> bool {
        matches!(decoded.result, Err(Reason::Protocol(_))) && !decoded.granted
    }

    #[test]
    fn numbers_are_common_outcomes() {
        let ops = ops();
        let [acquire, extend, release] = [&ops[0], &ops[2], &ops[3]];
        let granted = Answer::Granted(GrantedAnswer { accepted: true, fence: 7 });
        let expected = Decoded { result: Ok(granted), server_micros: Some(5), granted: true };
        assert_eq!(decoded(acquire, Value::Int(7)), expected);
        for (deleted, existed) in [(0, false), (1, true)] {
            let released = Answer::Released(ReleasedAnswer { existed, awaited: false });
            let expected = Decoded { result: Ok(released), server_micros: Some(5), granted: false };
            assert_eq!(decoded(release, Value::Int(deleted)), expected);
        }
        assert!(one(extend, Value::Int(1)).result.is_err());
    }

    #[test]
    fn fences_of_accepted_tokens_are_below() {
        let (acquire, int) = (&ops()[0], Value::Int);
        let refused = |fence| Value::Array(vec![int(2), int(5), int(fence)]);
        assert!(decoded(acquire, int(TOKEN - 1)).granted);
        assert!(decoded(acquire, refused(TOKEN)).granted);
        for wrong in [int(-1), int(TOKEN), int(i64::MAX), refused(TOKEN - 1), refused(-1)] {
            let decoded = decoded(acquire, wrong);
            assert!(is_unexpected(&decoded), "{decoded:?}");
        }
    }

    #[test]
    fn fences_of_raises_fit_their_codes() {
        let (raise, int) = (&ops()[1], Value::Int);
        let answer = |items: &[i64]| {
            let items = items.iter().copied().map(int).collect();
            decode_all(&[raise], items).unwrap().remove(0)
        };
        for (code, fence) in [(1, TOKEN - 1), (2, TOKEN)] {
            assert!(answer(&[code, 5, fence]).granted);
        }
        let wrong: [&[i64]; 6] =
            [&[1], &[2], &[1, 5, -1], &[2, 5, -1], &[1, 5, TOKEN], &[2, 5, TOKEN - 1]];
        for items in wrong {
            assert!(is_unexpected(&answer(items)), "{items:?}");
        }
    }

    #[test]
    fn numbers_that_are_missing_are_unexpected() {
        let ops = ops();
        for op in [&ops[1], &ops[5], &ops[6], &ops[8]] {
            for items in [&[1][..], &[1, 5]] {
                let items = items.iter().copied().map(Value::Int).collect();
                let decoded = decode_all(&[op], items).unwrap().remove(0);
                assert!(is_unexpected(&decoded), "{op:?}: {decoded:?}");
            }
        }
        // Of a raise, as the answer to a promise; and no record, without a time.
        for (op, items) in [(&ops[5], &[1, 5, 7][..]), (&ops[7], &[1])] {
            let items = items.iter().copied().map(Value::Int).collect();
            assert!(is_unexpected(&decode_all(&[op], items).unwrap().remove(0)), "{op:?}");
        }
    }

    #[test]
    fn codes_of_other_scripts_are_unexpected() {
        let (ops, int) = (ops(), Value::Int);
        let [acquire, release] = [&ops[0], &ops[3]];
        let codes = |codes: &[i64], op| {
            for &code in codes {
                let decoded = decoded(op, Value::Array(vec![int(code), int(5)]));
                assert!(is_unexpected(&decoded), "{decoded:?}");
            }
        };
        codes(&[0, 1, 2, 3, 7, 8, 9, 10, 13, 14, 15, 16], acquire);
        codes(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16], release);
        for deleted in [int(2), int(-1), Value::Array(vec![int(9), int(5), int(2)])] {
            let decoded = decoded(release, deleted);
            assert!(is_unexpected(&decoded), "{decoded:?}");
        }
    }

    #[test]
    fn answers_to_other_calls_are_none() {
        let (ops, int) = (ops(), Value::Int);
        let [acquire, release] = [&ops[0], &ops[3]];
        let other = Value::BulkString(Nonce::from_bytes([2; 16]).to_hex().into());
        for (call, head) in [
            (&[acquire][..], other.clone()),
            (&[release], other),
            // The same lease, but of another call.
            (&[acquire], head_of(&[release])),
            (&[release], head_of(&[acquire])),
        ] {
            let answers = decode_all(call, vec![head, int(5), int(1)]);
            assert_eq!(answers, Err(Unanswered::OtherCall), "{call:?}");
        }
        // A call is named by its first acquire, wherever that is.
        assert_eq!(head_of(&[release, acquire]), head_of(&[acquire]));
    }

    #[test]
    fn misshapen_answers_are_refused() {
        let (ops, int) = (ops(), Value::Int);
        for op in [&ops[0], &ops[3]] {
            let head = || head_of(&[op]);
            for items in [
                vec![],
                vec![int(5), int(7)],
                vec![int(1), int(5), int(7)],
                vec![Value::BulkString("other".into()), int(5), int(7)],
                vec![head(), int(5)],
                vec![head(), Value::Nil, int(7)],
                vec![head(), int(5), int(7), int(8)],
            ] {
                let decoded = decode_all(&[op], items).unwrap().remove(0);
                assert!(is_unexpected(&decoded), "{decoded:?}");
            }
        }
    }

    #[test]
    fn all_answers_have_the_time() {
        let (ops, int) = (ops(), Value::Int);
        let call = [&ops[0], &ops[3], &ops[0]];
        let answers = [Value::Array(vec![int(4)]), Value::Array(vec![int(9)]), Value::Nil];
        let items = [&[head_of(&call), int(5)], &answers[..]].concat();
        let decoded = decode_all(&call, items).unwrap();
        assert!(decoded.iter().all(|answer| answer.server_micros == Some(5)), "{decoded:?}");
    }

    proptest! {
        #[test]
        fn any_reply_is_decoded(reply in replies()) {
            for op in ops() {
                let is_list = matches!(reply, Value::Array(_));
                let single = one(&op, reply.clone());
                prop_assert!(is_list || single.result.is_err(), "{op:?}");
                let shares = matches!(op, Op::Acquire(_) | Op::Release(_));
                let answer = shares.then(|| decoded(&op, reply.clone()));
                for decoded in iter::once(single).chain(answer) {
                    let grants = matches!(op, Op::Acquire(_) | Op::Raise(_) | Op::Extend(_));
                    prop_assert!(grants || !decoded.granted, "{op:?}");
                    let takes = matches!(decoded.result, Ok(Answer::Granted(_)));
                    prop_assert!(
                        !takes || (decoded.granted && matches!(op, Op::Acquire(_))),
                        "{op:?}"
                    );
                }
            }
        }
    }
}
