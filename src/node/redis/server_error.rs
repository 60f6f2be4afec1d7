//! Classifies servers' errors and unexpected answers, and removes secrets from them.

use std::{borrow::Cow, sync::Arc};

use ::redis::{ServerError, Value};

use crate::error::{Reason, UnfitServer};

/// Classifies a server's error.
pub(super) fn reason(error: &ServerError) -> Reason {
    let text = || -> Arc<str> {
        let details = error.details().unwrap_or_default();
        without_secrets(format!("{} {details}", error.code()).trim_end()).into()
    };
    match error.code() {
        "NOAUTH" | "WRONGPASS" => Reason::Auth(text()),
        "NOPERM" => Reason::NoPermission(text()),
        // MOVED slot address
        "MOVED" => Reason::Moved { to: text().rsplit(' ').next().unwrap_or_default().into() },
        "READONLY" => Reason::ReadOnly,
        "OOM" => Reason::OutOfMemory,
        "BUSY" => Reason::Busy,
        "LOADING" => Reason::Loading,
        "MISCONF" => Reason::PersistenceFailing,
        "NOREPLICAS" => Reason::NoReplicas,
        // The reply to a connection in protected mode, before it is closed.
        "DENIED" => Reason::Unfit(UnfitServer::ProtectedMode),
        _ => in_script(error).unwrap_or_else(|| Reason::Server(text())),
    }
}

/// Classifies an error inside a script that the server wraps in a general one: any error before
/// Redis 7, with its code in the text; a missing permission since Redis 7, without a code.
fn in_script(error: &ServerError) -> Option<Reason> {
    let details = error.details()?;
    let has = |code: &str| details.contains(&format!("-{code} ")) || details.starts_with(code);
    [
        ("OOM", Reason::OutOfMemory),
        ("READONLY", Reason::ReadOnly),
        ("MISCONF", Reason::PersistenceFailing),
        ("NOREPLICAS", Reason::NoReplicas),
        ("NOPERM", Reason::NoPermission(without_secrets(details).into())),
    ]
    .into_iter()
    .find_map(|(code, reason)| has(code).then_some(reason))
    .or_else(|| {
        let is_denied = DENIED_IN_SCRIPT.iter().any(|words| details.contains(words));
        is_denied.then(|| Reason::NoPermission(without_secrets(details).into()))
    })
}

/// Texts of permission errors inside scripts, before Redis 7.2 and since.
const DENIED_IN_SCRIPT: [&str; 4] = [
    "can't run this command or subcommand",
    "can't access at least one of the keys",
    "can't publish to the channel",
    "ACL failure in script",
];

pub(super) fn unexpected(value: &Value) -> Reason {
    let shown = without_secrets(&shown(value)).chars().take(120).collect();
    Reason::Protocol(Cow::Owned(shown))
}

/// Formats an answer. The redis crate shows bytes that are not UTF-8 as numbers, in which a nonce
/// would not be recognised.
fn shown(value: &Value) -> String {
    match value {
        Value::BulkString(bytes) => format!("{:?}", String::from_utf8_lossy(bytes)),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(shown).collect();
            format!("[{}]", items.join(", "))
        }
        other => format!("{other:?}"),
    }
}

/// Removes secrets from a server's error, which may repeat arguments: cuts off the argument list,
/// and replaces digit sequences of the length of a nonce.
fn without_secrets(text: &str) -> String {
    const NONCE_DIGITS: usize = 32;
    const ARGUMENTS: &str = "with args beginning with";
    let text = text.find(ARGUMENTS).map_or(text, |at| text[..at].trim_end_matches([' ', ',']));
    let mut shown = String::with_capacity(text.len());
    let mut digits = String::new();
    for c in text.chars().chain(['\0']) {
        if c.is_ascii_hexdigit() {
            digits.push(c);
            continue;
        }
        shown.push_str(if digits.len() < NONCE_DIGITS { &digits } else { "…" });
        digits.clear();
        shown.push(c);
    }
    shown.pop();
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unexpected_answers_show_no_nonce() {
        let nonce = "ab".repeat(16).into_bytes();
        let bytes = [&nonce[..], b"\xff"].concat();

        for value in [Value::BulkString(nonce), Value::BulkString(bytes)] {
            for value in [value.clone(), Value::Array(vec![Value::Int(1), value])] {
                let shown = unexpected(&value).to_string();
                assert!(shown.contains('…'), "{shown}");
                assert!(!shown.contains("abab") && !shown.contains("97, 98"), "{shown}");
            }
        }
    }
}
