//! Reads the values of replies: numbers, texts, lists, the server's clock, fields of INFO.

use std::sync::Arc;

use ::redis::Value;

use super::server_error::reason;
use crate::{error::Reason, token::TOKEN_LIMIT};

/// Returns a non-negative integer.
pub(super) fn int(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        _ => None,
    }
}

/// Parses an integer, or the text of one.
pub(super) fn number(value: &Value) -> Option<u64> {
    match value {
        Value::BulkString(digits) => score(std::str::from_utf8(digits).ok()?),
        other => int(other),
    }
}

/// Parses the score of a member of a sorted set that is a whole number below 2^53, which a server may write
/// as `1.7e+15`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "whole numbers in these bounds are exact"
)]
pub(super) fn score(text: &str) -> Option<u64> {
    text.parse().ok().or_else(|| {
        let score: f64 = text.parse().ok()?;
        let is_whole = score.fract() == 0.0 && score >= 0.0;
        Some(score as u64).filter(|number| is_whole && *number < TOKEN_LIMIT)
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_whole_numbers_in_any_form() {
        for (text, number) in [
            ("0", Some(0)),
            ("1764000000000001", Some(1_764_000_000_000_001)),
            ("1.764e+15", Some(1_764_000_000_000_000)),
            ("1.764000000000001e+15", Some(1_764_000_000_000_001)),
            ("9007199254740991", Some(TOKEN_LIMIT - 1)),
            ("9.1e+15", None),
            ("1.5", None),
            ("-1", None),
            ("nan", None),
            ("inf", None),
            ("", None),
            ("x", None),
        ] {
            assert_eq!(score(text), number, "{text}");
        }
    }
}
