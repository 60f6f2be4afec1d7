//! Parses RESP2 replies incrementally.

use ::redis::{Value, parse_redis_value};

/// Why a reply can't be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// It is not RESP2.
    Malformed,
    /// It exceeds the memory limit of its command.
    TooLong,
}

use Unreadable::{Malformed, TooLong};

/// Maximum depth of nested lists; this crate's replies have three levels.
pub(super) const MAX_DEPTH: usize = 32;
/// Maximum length of a line that is a number, in bytes.
pub(super) const MAX_NUMBER: usize = 32;
/// Maximum length of any other line, in bytes. Servers truncate the text that they repeat in
/// errors.
pub(super) const MAX_LINE: usize = 64 * 1024;
/// Memory of an item besides its text, in bytes.
pub(super) const ITEM_BYTES: usize = size_of::<Value>();

/// An incremental parser, which reads each byte once.
#[derive(Debug, Default)]
pub(super) struct RespReader {
    /// Incomplete lists with their lengths, outermost first.
    pub(super) open: Vec<(Vec<Value>, usize)>,
}

enum RespItem {
    Value(Value),
    /// The header of a list with this number of items.
    List(usize),
}

impl RespReader {
    /// Takes the next reply off the front; `None` if it is incomplete.
    ///
    /// `left`: the memory left for replies, in bytes. The headers of a reply declare its size, so a
    /// reply that is too long is rejected before it is read.
    pub(super) fn next(
        &mut self,
        bytes: &mut &[u8],
        left: &mut usize,
    ) -> Result<Option<Value>, Unreadable> {
        while let Some((item, length)) = item(bytes, *left)? {
            *bytes = &bytes[length..];
            let memory = match &item {
                RespItem::Value(_) => length,
                RespItem::List(length) => length.saturating_mul(ITEM_BYTES),
            };
            *left = left.checked_sub(memory.saturating_add(ITEM_BYTES)).ok_or(TooLong)?;
            let value = match item {
                RespItem::Value(value) => value,
                RespItem::List(0) => Value::Array(Vec::new()),
                RespItem::List(_) if self.open.len() == MAX_DEPTH => return Err(Malformed),
                RespItem::List(length) => {
                    self.open.push((Vec::with_capacity(length), length));
                    continue;
                }
            };
            if let Some(answer) = self.place(value) {
                return Ok(Some(answer));
            }
        }
        Ok(None)
    }

    /// Adds a value to its list; returns a reply once it is complete.
    fn place(&mut self, mut value: Value) -> Option<Value> {
        while let Some((mut items, length)) = self.open.pop() {
            items.push(value);
            if items.len() < length {
                self.open.push((items, length));
                return None;
            }
            value = Value::Array(items);
        }
        Some(value)
    }
}

/// Parses the first item; returns it with its length, or `None` if it is incomplete.
fn item(bytes: &[u8], left: usize) -> Result<Option<(RespItem, usize)>, Unreadable> {
    let Some((&kind, rest)) = bytes.split_first() else { return Ok(None) };
    let is_number = matches!(kind, b':' | b'$' | b'*');
    if !is_number && !matches!(kind, b'+' | b'-') {
        return Err(Malformed);
    }
    let longest = if is_number { MAX_NUMBER } else { MAX_LINE };
    let Some(end) = rest.iter().position(|byte| *byte == b'\r') else {
        return if rest.len() > longest { Err(Malformed) } else { Ok(None) };
    };
    if end > longest {
        return Err(Malformed);
    }
    let (line, head) = (&rest[..end], end + 3);
    match rest.get(end + 1) {
        None => return Ok(None),
        Some(b'\n') => {}
        Some(_) => return Err(Malformed),
    }
    let value = match kind {
        b':' => Value::Int(number(line)?),
        b'$' => {
            let Ok(length) = usize::try_from(number(line)?) else {
                return Ok(Some((RespItem::Value(Value::Nil), head)));
            };
            if length > left {
                return Err(TooLong);
            }
            let end = head + length;
            match bytes.get(end..) {
                Some([b'\r', b'\n', ..]) => {
                    let text = Value::BulkString(bytes[head..end].to_vec());
                    return Ok(Some((RespItem::Value(text), end + 2)));
                }
                None | Some([] | [b'\r']) => return Ok(None),
                Some(_) => return Err(Malformed),
            }
        }
        b'*' => match usize::try_from(number(line)?) {
            Ok(length) => return Ok(Some((RespItem::List(length), head))),
            Err(_) => Value::Nil,
        },
        // Rare types are parsed by the redis crate.
        _ => parse_redis_value(&bytes[..head]).map_err(|_| Malformed)?,
    };
    Ok(Some((RespItem::Value(value), head)))
}

fn number(line: &[u8]) -> Result<i64, Unreadable> {
    std::str::from_utf8(line).ok().and_then(|text| text.parse().ok()).ok_or(Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More memory than any reply here takes, in bytes.
    const MEMORY_LIMIT: usize = 1024 * 1024 * 1024;

    fn next(bytes: &[u8]) -> Result<Option<Value>, Unreadable> {
        RespReader::default().next(&mut &*bytes, &mut MEMORY_LIMIT.clone())
    }

    #[test]
    fn malformed_replies_are_reported() {
        let deep = b"*1\r\n".repeat(MAX_DEPTH + 1);
        let endless = [b":".to_vec(), b"1".repeat(MAX_NUMBER + 1)].concat();
        let line = [b"-".to_vec(), b"x".repeat(MAX_LINE + 1)].concat();
        let others: [&[u8]; 11] = [
            b"HTTP/1.1 400",
            b":x\r\n",
            b":\r\n",
            b":9223372036854775808\r\n",
            b":1\rx",
            b"$1\r\nabc",
            b"$1\r\na\rb",
            b"*x\r\n",
            b"+\xff\r\n",
            b"*1\r\n\r\n",
            b"\0",
        ];

        for bytes in others.into_iter().chain([&deep[..], &endless[..], &line[..]]) {
            let told = next(bytes);
            assert_eq!(told, Err(Malformed), "{}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn long_lines_fail_in_any_chunks() {
        for (kind, longest) in [(":", MAX_NUMBER), ("$", MAX_NUMBER), ("+", MAX_LINE)] {
            let line = |length: usize| format!("{kind}{}\r\n", "0".repeat(length));
            assert!(matches!(next(line(longest).as_bytes()), Ok(None | Some(_))), "{kind}");
            let long = line(longest + 1);
            assert_eq!(next(long.as_bytes()), Err(Malformed), "{kind}");
            assert_eq!(next(&long.as_bytes()[..long.len() - 2]), Err(Malformed), "{kind}");
        }
    }

    #[test]
    fn long_answers_are_refused_by_header() {
        const LEFT: usize = 1_000;
        for (kind, most) in [('$', LEFT), ('*', LEFT / ITEM_BYTES - 1)] {
            let head = |length: usize| format!("{kind}{length}\r\n");
            let next =
                |head: String| RespReader::default().next(&mut head.as_bytes(), &mut LEFT.clone());
            assert_eq!(next(head(most)), Ok(None));
            for length in [most + 1, usize::MAX >> 1] {
                assert_eq!(next(head(length)), Err(TooLong), "{kind}{length}");
            }
        }
    }

    #[test]
    fn answers_share_their_memory() {
        for answer in ["$10\r\n0123456789\r\n", ":1\r\n", "-ERR no\r\n", "*0\r\n", "*1\r\n:1\r\n"] {
            let (mut reader, mut left) = (RespReader::default(), 10_000);
            let endless = answer.repeat(10_000);
            let mut bytes = endless.as_bytes();
            let mut count = 0;
            while let Ok(Some(_)) = reader.next(&mut bytes, &mut left) {
                count += 1;
            }
            assert!(count > 50 && !bytes.is_empty(), "{answer:?} {count} times");
        }
    }

    #[test]
    fn lists_nest_up_to_maximum_depth() {
        let heads = b"*1\r\n".repeat(MAX_DEPTH);
        let mut value = next(&[&heads[..], b":5\r\n"].concat());
        for _ in 0..MAX_DEPTH {
            let Ok(Some(Value::Array(mut items))) = value else { panic!("{value:?}") };
            value = Ok(items.pop());
        }
        assert_eq!(value, Ok(Some(Value::Int(5))));
    }

    #[test]
    fn resp3_types_are_rejected() {
        for kind in *b"%~_#,(=>|!" {
            for rest in ["", "1\r\n", "\r\n", "t\r\n"] {
                for before in ["", "*2\r\n:1\r\n"] {
                    let bytes = [before.as_bytes(), &[kind], rest.as_bytes()].concat();
                    assert_eq!(next(&bytes[..]), Err(Malformed));
                }
            }
        }
    }

    #[test]
    fn nested_errors_keep_their_codes() {
        let codes = [
            "NOAUTH",
            "WRONGPASS",
            "NOPERM",
            "READONLY",
            "OOM",
            "BUSY",
            "LOADING",
            "MISCONF",
            "NOSCRIPT",
            "ERR",
        ];
        for code in codes {
            let line = format!("-{code} in its words\r\n");
            let alone = next(line.as_bytes()).unwrap().unwrap();
            let listed = format!("*2\r\n*1\r\n{line}{line}");
            let listed = next(listed.as_bytes()).unwrap().unwrap();
            let Value::ServerError(error) = &alone else { panic!("{alone:?}") };
            assert_eq!((error.code(), error.details()), (code, Some("in its words")));
            let inner = Value::Array(vec![alone.clone()]);
            assert_eq!(listed, Value::Array(vec![inner, alone]));
        }
    }

    #[test]
    fn nil_and_signed_numbers_are_read() {
        let bytes =
            b"*5\r\n$-1\r\n*-1\r\n:-9223372036854775808\r\n:9223372036854775807\r\n$0\r\n\r\n";
        let items = vec![
            Value::Nil,
            Value::Nil,
            Value::Int(i64::MIN),
            Value::Int(i64::MAX),
            Value::BulkString(Vec::new()),
        ];

        assert_eq!(next(&bytes[..]), Ok(Some(Value::Array(items))));
    }
}
