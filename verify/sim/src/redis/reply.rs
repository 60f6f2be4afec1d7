//! Replies and requests in RESP2.

use std::io::Write;

use super::store::Bytes;

/// A reply of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A status.
    Status(String),
    /// An error, with its code.
    Error(String),
    /// An integer.
    Int(i64),
    /// A string.
    Bulk(Bytes),
    /// The null reply.
    Nil,
    /// A list.
    Array(Vec<Reply>),
}

impl Reply {
    /// `+OK`.
    pub fn ok() -> Self {
        Self::Status("OK".into())
    }

    /// A number of things.
    pub fn count(number: usize) -> Self {
        Self::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }

    /// An error.
    pub fn error(text: impl Into<String>) -> Self {
        Self::Error(text.into())
    }

    /// A string.
    pub fn text(text: impl AsRef<[u8]>) -> Self {
        Self::Bulk(text.as_ref().to_vec())
    }

    /// Appends the encoded reply.
    pub fn write_to(&self, out: &mut Bytes) {
        // Writing into memory does not fail.
        let _ = match self {
            Self::Status(text) => write!(out, "+{text}\r\n"),
            Self::Error(text) => write!(out, "-{}\r\n", text.replace(['\r', '\n'], " ")),
            Self::Int(number) => write!(out, ":{number}\r\n"),
            Self::Nil => write!(out, "$-1\r\n"),
            Self::Bulk(bytes) => {
                let _ = write!(out, "${}\r\n", bytes.len());
                out.extend_from_slice(bytes);
                write!(out, "\r\n")
            }
            Self::Array(items) => {
                let _ = write!(out, "*{}\r\n", items.len());
                for item in items {
                    item.write_to(out);
                }
                Ok(())
            }
        };
    }
}

/// Removes and returns the first command of the input; `None` while it is incomplete.
pub fn take_command(input: &mut Bytes) -> Option<Vec<Bytes>> {
    let mut at = 0;
    let count = number(input, &mut at)?;
    let mut args = Vec::with_capacity(count);
    for _ in 0..count {
        let length = number(input, &mut at)?;
        let arg = input.get(at..at + length)?.to_vec();
        at += length + 2;
        if input.len() < at {
            return None;
        }
        args.push(arg);
    }
    input.drain(..at);
    Some(args)
}

/// Parses the number of a header such as `*3` or `$5`.
fn number(input: &[u8], at: &mut usize) -> Option<usize> {
    let rest = input.get(*at..)?;
    let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
    let number = std::str::from_utf8(rest.get(1..end)?).ok()?.parse().unwrap_or(0);
    *at += end + 2;
    Some(number)
}
