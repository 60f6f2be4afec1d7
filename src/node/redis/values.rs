//! Reads the values of replies: numbers, texts, lists, the server's clock, fields of INFO.

use std::sync::Arc;

use ::redis::Value;

use super::server_error::reason;
use crate::error::Reason;

/// Returns a non-negative integer.
pub(super) fn int(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        _ => None,
    }
}

/// Parses an integer, or a string of its digits.
pub(super) fn number(value: &Value) -> Option<u64> {
    match value {
        Value::BulkString(digits) => std::str::from_utf8(digits).ok()?.parse().ok(),
        other => int(other),
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

/// Returns the items of the last reply, which must be a list.
pub(super) fn list(mut replies: Vec<Value>) -> Result<Vec<Value>, Reason> {
    match replies.pop() {
        Some(Value::Array(items)) => Ok(items),
        Some(Value::ServerError(error)) => Err(reason(&error)),
        _ => Err(Reason::Protocol("a list was expected".into())),
    }
}

/// Returns a field of the reply to INFO.
pub(super) fn info(value: &Value, name: &str) -> Option<Arc<str>> {
    let text = match value {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes),
        Value::VerbatimString { text, .. } => text.as_str().into(),
        _ => return None,
    };
    let field = |line: &str| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim().into());
    text.lines().find_map(field)
}

/// Returns the digest that `SCRIPT LOAD` answered with.
pub(super) fn digest(value: Value) -> Result<String, Reason> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes)
            .map_err(|_| Reason::Protocol("a script digest that is not text".into())),
        Value::SimpleString(text) => Ok(text),
        Value::ServerError(error) => Err(reason(&error)),
        _ => Err(Reason::Protocol("SCRIPT LOAD did not answer with a digest".into())),
    }
}

/// Reads the server's TIME, in µs.
pub(super) fn read_time(answer: Value) -> Result<u64, Reason> {
    let number = |value: &Value| text(value).parse::<u64>().ok();
    match answer {
        Value::Array(parts) => {
            match (parts.first().and_then(number), parts.get(1).and_then(number)) {
                (Some(seconds), Some(micros)) => {
                    Ok(seconds.saturating_mul(1_000_000).saturating_add(micros))
                }
                _ => Err(Reason::Protocol("TIME did not answer with two numbers".into())),
            }
        }
        Value::ServerError(error) => Err(reason(&error)),
        _ => Err(Reason::Protocol("TIME did not answer with a list".into())),
    }
}
