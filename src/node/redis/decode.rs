//! Decodes the replies to operations.

use std::{sync::Arc, time::Duration};

use ::redis::Value;

use super::{
    claim_text,
    encode::Keys,
    server_error::{reason, unexpected},
    values::{int, number, text},
};
use crate::{
    error::Reason,
    protocol::{
        AcquireOp, Answer, ClaimsAnswer, ExtendedAnswer, GrantedAnswer, HeldAnswer, LeaseId, Nonce,
        Op, PromisedAnswer, RaiseOp, RaisedAnswer, Record, ReleasedAnswer, ScannedAnswer, Stored,
        StoredLease, TickClaim,
    },
    switches::{self, Switch},
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
    /// Creates a decoded reply without a reading of the clock.
    pub(super) fn timeless(result: Result<Answer, Reason>) -> Self {
        Self { result, server_micros: None, granted: false }
    }
}

/// The server lacks the script; nothing ran. The operation is sent again with the script's text. If
/// it was already sent with the text, this reason is its result.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoScript(pub(super) Reason);

/// Decodes the reply to an operation.
pub(super) fn decode(keys: &Keys, op: &Op, value: Value) -> Result<Decoded, NoScript> {
    let items = match (op, value) {
        (_, Value::ServerError(error)) if error.code() == "NOSCRIPT" => {
            return Err(NoScript(reason(&error)));
        }
        (_, Value::ServerError(error)) => return Ok(Decoded::timeless(Err(reason(&error)))),
        (Op::Acquire(_), Value::Int(1)) => {
            // The value of the fence does not matter here.
            let answer = Answer::Granted(GrantedAnswer { accepted: true, fence: 0 });
            return Ok(Decoded { granted: true, ..Decoded::timeless(Ok(answer)) });
        }
        (Op::Release(lease), value @ Value::Int(_)) => {
            return Ok(Decoded::timeless(released(names_of(lease), int(&value), false)));
        }
        (Op::EndShared(_), value @ Value::Int(_)) => {
            return Ok(Decoded::timeless(released(1, int(&value), false)));
        }
        (Op::Withdraw(waiter), Value::Int(removed @ 0..)) => {
            let is_known = usize::try_from(removed).is_ok_and(|count| count <= names_of(waiter));
            let answer = is_known.then_some(Answer::Withdrawn(removed > 0));
            return Ok(Decoded::timeless(answer.ok_or_else(|| unexpected(&Value::Int(removed)))));
        }
        (_, Value::Array(items)) => items,
        (_, other) => return Ok(Decoded::timeless(Err(unexpected(&other)))),
    };
    Ok(match op {
        Op::Scan(scan) => Decoded::timeless(scanned(items, keys.prefix_of(scan.kind))),
        Op::Inspect(names) => Decoded::timeless(inspected(names, items)),
        Op::Acquire(op) => refused(op, &items),
        Op::Release(lease) if items.first().and_then(int) == Some(9) => {
            Decoded::timeless(released(names_of(lease), items.get(1).and_then(int), true))
        }
        Op::EndShared(_) if items.first().and_then(int) == Some(9) => {
            Decoded::timeless(released(1, items.get(1).and_then(int), true))
        }
        Op::Release(_) | Op::EndShared(_) | Op::Withdraw(_) => {
            Decoded::timeless(Err(unexpected(&Value::Array(items))))
        }
        _ => timed(op, &items),
    })
}

/// The replies to plain commands do not answer the operation, which is then sent as its script.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoAnswer {
    /// Whether the commands may have stored a key.
    pub(super) stored: bool,
}

/// Decodes the replies to an operation in its plain form.
pub(super) fn decode_plain(op: &Op, replies: &[Value]) -> Result<Decoded, NoAnswer> {
    match (op, replies) {
        (Op::Acquire(_), [Value::Okay, second])
            if *second == Value::Int(1) || switches::is_out(Switch::SecondCommand) =>
        {
            let answer = Answer::Granted(GrantedAnswer { accepted: true, fence: 0 });
            Ok(Decoded { granted: true, ..Decoded::timeless(Ok(answer)) })
        }
        (Op::Release(_), [Value::Int(1)]) => Ok(Decoded::timeless(released(1, Some(1), false))),
        (_, replies) => {
            let is_stored = |set: &Value| !matches!(set, Value::Nil | Value::ServerError(_));
            let stored = matches!(op, Op::Acquire(_)) && replies.first().is_some_and(is_stored);
            Err(NoAnswer { stored })
        }
    }
}

/// Decodes a reply to an acquire that is a list.
fn refused(op: &AcquireOp, items: &[Value]) -> Decoded {
    let fence = items.get(1).and_then(number);
    let result = match (items.first().and_then(int), fence) {
        (Some(2), Some(fence)) if fence >= op.token => {
            let answer = GrantedAnswer { accepted: false, fence };
            return Decoded { granted: true, ..Decoded::timeless(Ok(Answer::Granted(answer))) };
        }
        (Some(3), Some(fence)) => Ok(held(fence, items.get(2), items.get(3))),
        (Some(4), _) => Err(Reason::WrongTag { found: "".into() }),
        _ => Err(unexpected(&Value::Array(items.to_vec()))),
    };
    Decoded::timeless(result)
}

fn held(fence: u64, value: Option<&Value>, remaining: Option<&Value>) -> Answer {
    Answer::Held(HeldAnswer {
        owner: value.and_then(owner),
        remaining: remaining.and_then(int).map(Duration::from_millis),
        fence,
        lingers: value.and_then(linger_mark) == Some(b'\t'),
        is_shared: value.and_then(sharing).is_some(),
        readers: value.and_then(sharing).unwrap_or(0),
        waiter: value.and_then(waiter).map(|waiter| waiter.owner),
    })
}

fn names_of(lease: &LeaseId) -> usize {
    lease.resource().shared_names().len()
}

fn released(names: usize, deleted: Option<u64>, awaited: bool) -> Result<Answer, Reason> {
    match deleted.and_then(|count| usize::try_from(count).ok()) {
        Some(deleted) if deleted <= names => {
            Ok(Answer::Released(ReleasedAnswer { existed: deleted == names, awaited }))
        }
        _ => Err(Reason::Protocol("a number of released keys that the lock does not have".into())),
    }
}

/// Decodes a list that begins with a code and the server's time.
fn timed(op: &Op, items: &[Value]) -> Decoded {
    let int = |i: usize| items.get(i).and_then(int);
    let code = int(0).unwrap_or(0);
    let result = match (code, op, int(2)) {
        (1 | 2, Op::Raise(op), Some(fence)) if accepts(op, fence) == (code == 1) => {
            Ok(Answer::Raised(RaisedAnswer { accepted: code == 1, fence }))
        }
        (3, Op::Extend(_), Some(fence)) => Ok(held(fence, items.get(3), items.get(4))),
        (1, Op::Prepare(_), Some(floor)) if items.len() == 4 => claim(items.get(3))
            .map(|claim| Answer::Promised(PromisedAnswer { floor, claim: claim.map(Box::new) })),
        (1, Op::Claim(_), Some(_)) if items.len() == 4 => Ok(Answer::Claimed),
        (1, Op::Claims(jobs), Some(floor)) => match items.get(3) {
            Some(Value::Array(claims)) if claims.len() == jobs.len() => {
                let claims: Result<_, _> = claims.iter().map(|item| claim(Some(item))).collect();
                claims.map(|claims| Answer::Claims(ClaimsAnswer { floor, claims }))
            }
            _ => Err(unexpected(&Value::Array(items.to_vec()))),
        },
        // Only a query may find no record.
        (1, Op::Record(_) | Op::Repair(_), _) if items.len() < 4 => {
            Err(unexpected(&Value::Array(items.to_vec())))
        }
        (1, Op::ReadRecord(_) | Op::Record(_) | Op::Repair(_), _) if int(1).is_some() => {
            recorded(items).map(Answer::Recorded)
        }
        (1, Op::Forget(_) | Op::ForgetJob(_), Some(deleted)) => Ok(Answer::Forgotten(deleted > 0)),
        (4, ..) => Err(Reason::WrongTag { found: items.get(2).map(text).unwrap_or_default() }),
        (5, ..) => Err(Reason::Late),
        (6, Op::Raise(_), _) => Err(Reason::TokenAhead),
        (7, Op::Raise(_) | Op::Record(_), _) => Err(Reason::KeyGone),
        (8 | 10, Op::Extend(_), awaited) => {
            Ok(Answer::Extended(ExtendedAnswer { awaited: awaited == Some(1) }))
        }
        (12, Op::Extend(_), _) => Err(Reason::TtlTooLong),
        (13, Op::Prepare(_) | Op::Claim(_) | Op::ForgetJob(_), _) => Err(Reason::Superseded),
        (14, Op::Prepare(_) | Op::Claim(_), _) => Err(Reason::TooManyJobs),
        (15, Op::ReadRecord(_), _) => Err(Reason::Incomplete),
        _ => Err(unexpected(&Value::Array(items.to_vec()))),
    };
    let stores = match op {
        Op::Raise(_) => true,
        Op::Extend(_) => code == 10,
        _ => false,
    };
    let granted = stores && result.is_ok();
    Decoded { result, server_micros: int(1), granted }
}

/// Returns whether a node with this fence accepts a raise.
fn accepts(op: &RaiseOp, fence: u64) -> bool {
    fence < op.token || (op.lease.is_shared() && fence == op.token)
}

fn inspected(names: &[Arc<str>], items: Vec<Value>) -> Result<Answer, Reason> {
    if items.len() == 2 * names.len() {
        Ok(Answer::Inspected(items.chunks(2).map(stored).collect()))
    } else {
        Err(unexpected(&Value::Array(items)))
    }
}

/// Parses a value and its remaining time.
fn stored(items: &[Value]) -> Option<Stored> {
    let remaining = items.get(1).and_then(int).map(Duration::from_millis);
    // The markers at the end are those of `linger_mark` and of `release.lua`.
    let awaited =
        |value: &Value| matches!(value, Value::BulkString(bytes) if bytes.ends_with(b"\n"));
    let (value, others) = match items.first()? {
        Value::Nil => return None,
        Value::Array(leases) => leases.split_first()?,
        value => (value, &[][..]),
    };
    let first = lease(value);
    let waiter = waiter(value);
    let is_awaited = waiter.is_some() || (first.is_some() && awaited(value));
    let lingers = linger_mark(value).is_some();
    let sharing = sharing(value).filter(|_| first.is_some()).unwrap_or(0);
    let readers = first.iter().cloned().chain(others.iter().filter_map(lease));
    let readers = readers.take(sharing.min(Stored::MAX_READERS)).collect();
    let stored = Stored::new(first, remaining).awaited(is_awaited).lingering(lingers);
    Some(stored.sharing(sharing).readers(readers).waiter(waiter))
}

/// Returns what follows the longest lease in the value of a shared key, after a vertical tab: the number
/// of leases, and after a line feed the mark of an exclusive request that waits.
fn after_lease(value: &Value) -> Option<(&str, Option<&str>)> {
    let Value::BulkString(bytes) = value else { return None };
    let (_, rest) = std::str::from_utf8(bytes).ok()?.split_once('\u{b}')?;
    Some(rest.split_once('\n').map_or((rest, None), |(number, mark)| (number, Some(mark))))
}

/// Returns the number of leases that share a key, if it is shared.
fn sharing(value: &Value) -> Option<usize> {
    after_lease(value)?.0.parse().ok()
}

/// Returns the exclusive request that waits for the leases that share a key.
fn waiter(value: &Value) -> Option<StoredLease> {
    lease_of(after_lease(value)?.1?)
}

/// Returns the marker of a lease that its owner may keep idle: a carriage return after the owner,
/// or a tab once another process has asked for the lease.
fn linger_mark(value: &Value) -> Option<u8> {
    let Value::BulkString(bytes) = value else { return None };
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let mark = bytes.last().copied().filter(|mark| matches!(mark, b'\r' | b'\t'));
    mark.filter(|_| lease(value).is_some())
}

/// Parses a page: its cursor, and the keys that begin with a prefix. Keys without the prefix, or
/// that are not UTF-8, belong to other programs and are skipped.
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
    // Removes the markers of waiters and of idle leases; owners contain no control characters.
    let text = text.split('\u{b}').next().unwrap_or_default();
    let text = text.trim_end_matches(['\n', '\r', '\t']);
    let mut parts = text.splitn(4, ' ');
    let nonce = Nonce::from_hex(parts.next()?)?;
    let token = parts.next()?.parse().ok()?;
    let since = Duration::from_millis(parts.next()?.parse().ok()?);
    Some(StoredLease::new(nonce, token, since, parts.next()?.into()))
}

/// Parses a record and its remaining time; without a TTL it never expires. A value that this crate
/// did not write is an error, as it may have replaced a record.
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

/// Parses a job's claim, if any. A value that this crate did not write is an error.
fn claim(value: Option<&Value>) -> Result<Option<TickClaim>, Reason> {
    let Some(value) = value.filter(|value| **value != Value::Nil) else { return Ok(None) };
    let Value::BulkString(bytes) = value else { return Err(unexpected(value)) };
    let claim = std::str::from_utf8(bytes).ok().and_then(claim_text::read);
    claim.map(Some).ok_or_else(|| unexpected(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
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
        let (ttl, max_delay) = (Duration::from_secs(1), Duration::ZERO);
        vec![
            Op::Acquire(AcquireOp {
                lease: lease(),
                ttl,
                token: TOKEN.unsigned_abs(),
                block_end: 20,
                expires: Timestamp::MAX,
                waiter: None,
            }),
            Op::Raise(RaiseOp::new(lease(), TOKEN.unsigned_abs(), 20)),
            Op::Extend(ExtendOp {
                lease: lease(),
                ttl,
                token: 1,
                until: Timestamp::MAX,
                max_delay,
            }),
            Op::Release(lease()),
            Op::Prepare(PrepareOp { job: "a".into(), token: 1, max_delay }),
            Op::ForgetJob(ForgetJobOp::new("a".into(), 1, max_delay)),
            Op::ReadRecord("a".into()),
            Op::Claims(vec!["a".into(), "b".into()].into()),
        ]
    }

    fn decoded(op: &Op, answer: Value) -> Decoded {
        decode(&Keys::new("redlock"), op, answer).expect("the script is there")
    }

    fn list(items: &[i64]) -> Value {
        Value::Array(items.iter().copied().map(Value::Int).collect())
    }

    fn is_unexpected(decoded: &Decoded) -> bool {
        matches!(decoded.result, Err(Reason::Protocol(_))) && !decoded.granted
    }

    #[test]
    fn numbers_are_common_outcomes() {
        let ops = ops();
        let [acquire, extend, release] = [&ops[0], &ops[2], &ops[3]];
        let granted = Answer::Granted(GrantedAnswer { accepted: true, fence: 0 });

        let expected = Decoded { result: Ok(granted), server_micros: None, granted: true };

        assert_eq!(decoded(acquire, Value::Int(1)), expected);

        for (deleted, existed) in [(0, false), (1, true)] {
            let released = Answer::Released(ReleasedAnswer { existed, awaited: false });
            assert_eq!(decoded(release, Value::Int(deleted)), Decoded::timeless(Ok(released)));
        }
        let awaited = Answer::Released(ReleasedAnswer { existed: true, awaited: true });

        assert_eq!(decoded(release, list(&[9, 1])), Decoded::timeless(Ok(awaited)));
        assert!(is_unexpected(&decoded(extend, Value::Int(1))));
    }

    #[test]
    fn missing_scripts_have_their_own_error() {
        let error = ::redis::parse_redis_value(b"-NOSCRIPT No matching script.\r\n").unwrap();
        let reason = Reason::Server("NOSCRIPT No matching script.".into());
        assert_eq!(decode(&Keys::new("redlock"), &ops()[0], error), Err(NoScript(reason)));
    }

    #[test]
    fn refused_tokens_are_below_the_fence() {
        let acquire = &ops()[0];
        let refused = |fence: i64| {
            let digits = Value::BulkString(fence.to_string().into());
            [list(&[2, fence]), Value::Array(vec![Value::Int(2), digits])]
        };
        for answer in refused(TOKEN) {
            let fence = u64::try_from(TOKEN).unwrap();
            let granted = Answer::Granted(GrantedAnswer { accepted: false, fence });
            let expected = Decoded { result: Ok(granted), server_micros: None, granted: true };
            assert_eq!(decoded(acquire, answer), expected);
        }

        for wrong in [refused(TOKEN - 1), refused(-1)].concat() {
            let decoded = decoded(acquire, wrong);
            assert!(is_unexpected(&decoded), "{decoded:?}");
        }
    }

    #[test]
    fn fences_of_raises_fit_their_codes() {
        let raise = &ops()[1];

        for (code, fence) in [(1, TOKEN - 1), (2, TOKEN)] {
            assert!(decoded(raise, list(&[code, 5, fence])).granted);
        }

        let wrong: [&[i64]; 6] =
            [&[1], &[2], &[1, 5, -1], &[2, 5, -1], &[1, 5, TOKEN], &[2, 5, TOKEN - 1]];
        for items in wrong {
            assert!(is_unexpected(&decoded(raise, list(items))), "{items:?}");
        }
    }

    #[test]
    fn numbers_that_are_missing_are_unexpected() {
        let ops = ops();
        for op in [&ops[1], &ops[4], &ops[5], &ops[7]] {
            for items in [&[1][..], &[1, 5]] {
                let decoded = decoded(op, list(items));
                assert!(is_unexpected(&decoded), "{op:?}: {decoded:?}");
            }
        }

        // Of a raise, as the answer to a promise; and no record, without a time.
        for (op, items) in [(&ops[4], &[1, 5, 7][..]), (&ops[6], &[1])] {
            assert!(is_unexpected(&decoded(op, list(items))), "{op:?}");
        }
    }

    #[test]
    fn codes_of_other_scripts_are_unexpected() {
        let ops = ops();
        let [acquire, release] = [&ops[0], &ops[3]];
        let codes = |codes: &[i64], op| {
            for &code in codes {
                let decoded = decoded(op, list(&[code]));
                assert!(is_unexpected(&decoded), "{decoded:?}");
            }
        };
        codes(&[0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 12, 13, 14, 15, 16], acquire);
        codes(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16], release);
        for wrong in [Value::Int(2), Value::Int(-1), list(&[9, 2]), list(&[]), Value::Nil] {
            let decoded = decoded(release, wrong);
            assert!(is_unexpected(&decoded), "{decoded:?}");
        }

        for wrong in [Value::Int(0), Value::Int(2), list(&[]), Value::Nil] {
            let decoded = decoded(acquire, wrong);
            assert!(is_unexpected(&decoded), "{decoded:?}");
        }
    }
}
