//! Fuzz target of the reply parser.

#![allow(clippy::missing_panics_doc, reason = "a panic is a broken promise")]

use ::redis::{Value, parse_redis_value};

use super::{
    RespReader, Unreadable,
    resp::{ITEM_BYTES, MAX_DEPTH, MAX_LINE, MAX_NUMBER},
};

/// Memory for the replies of one input, in bytes.
const LIMIT: usize = 64 * 1024;

/// The replies in a byte sequence, and why parsing ended.
#[derive(Debug, PartialEq)]
pub(in crate::node::redis) struct Replies {
    pub(in crate::node::redis) values: Vec<Value>,
    end: Option<Unreadable>,
}

/// Reads replies that arrive in chunks of this length.
pub(in crate::node::redis) fn replies(bytes: &[u8], chunk: usize) -> Replies {
    let mut reader = RespReader::default();
    let (mut left, mut values) = (LIMIT, Vec::new());
    let mut unread = Vec::new();
    for chunk in bytes.chunks(chunk.max(1)) {
        unread.extend_from_slice(chunk);
        let mut rest = &unread[..];
        loop {
            let next = reader.next(&mut rest, &mut left);
            let read: usize = values.iter().map(memory).sum();
            let memory = read + reader.open.iter().map(|(items, _)| of_list(items)).sum::<usize>();
            assert!(memory <= LIMIT - left, "{memory} bytes are more than were counted");
            match next {
                Ok(Some(value)) => values.push(value),
                Ok(None) => break,
                Err(end) => return Replies { values, end: Some(end) },
            }
        }
        unread = rest.to_vec();
    }
    Replies { values, end: None }
}

/// Heap memory of a value and the value itself, in bytes.
fn memory(value: &Value) -> usize {
    ITEM_BYTES
        + match value {
            Value::BulkString(text) => text.len(),
            Value::SimpleString(text) => text.len(),
            Value::ServerError(error) => error.details().unwrap_or_default().len(),
            Value::Array(items) => of_list(items),
            _ => 0,
        }
}

/// The capacity for items that are not read yet counts too.
fn of_list(items: &Vec<Value>) -> usize {
    let unused = (items.capacity() - items.len()) * ITEM_BYTES;
    items.iter().map(memory).sum::<usize>() + unused
}

/// Reads bytes as replies. The first byte is the length of the chunks in which they arrive.
///
/// The replies do not depend on the chunks, are equal to the replies that the redis crate reads,
/// and take no more memory than is counted. Replies that only the redis crate reads exceed a limit,
/// or are RESP3.
pub fn resp(data: &[u8]) {
    let Some((&chunk, bytes)) = data.split_first() else { return };
    let whole = replies(bytes, bytes.len());
    assert_eq!(replies(bytes, chunk.into()), whole, "chunks of {chunk}");
    let mut rest = bytes;
    for value in &whole.values {
        let mut after = rest;
        let again = RespReader::default().next(&mut after, &mut LIMIT.clone());
        assert_eq!(again, Ok(Some(value.clone())));
        let read = &rest[..rest.len() - after.len()];
        assert_eq!(parse_redis_value(read).as_ref(), Ok(value));
        rest = after;
    }
    if let Ok(value) = parse_redis_value(rest) {
        let is_refused = whole.end == Some(Unreadable::TooLong) || exceeds(&value, 0);
        assert!(is_refused || has_odd_line(rest), "not read: {value:?}");
    }
}

/// Returns whether a line may be a number that is too long, or has blanks, which the redis crate
/// ignores; or a nil, an error or a set of RESP3. The redis crate reads a set of negative length as
/// nil.
fn has_odd_line(bytes: &[u8]) -> bool {
    String::from_utf8_lossy(bytes).split("\r\n").any(|line| {
        let is_resp3 = line.starts_with(['_', '!', '~']);
        is_resp3
            || line.strip_prefix([':', '$', '*']).is_some_and(|number| {
                let is_odd = |c: char| !matches!(c, '+' | '-' | '0'..='9');
                number.len() > MAX_NUMBER || number.contains(is_odd)
            })
    })
}

/// Returns whether a reply is too deep, has too long a line or one with a carriage return, or is
/// RESP3.
fn exceeds(value: &Value, depth: usize) -> bool {
    match value {
        Value::Nil | Value::Int(_) | Value::BulkString(_) | Value::Okay => false,
        Value::SimpleString(text) => text.len() > MAX_LINE || text.contains('\r'),
        Value::ServerError(error) => {
            let text = [error.code(), error.details().unwrap_or_default()].join(" ");
            text.len() > MAX_LINE || text.contains('\r')
        }
        Value::Array(items) => {
            depth == MAX_DEPTH || items.iter().any(|item| exceeds(item, depth + 1))
        }
        _ => true,
    }
}
