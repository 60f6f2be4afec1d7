//! Answers as RESP2 spells them, read as they come in.

use ::redis::{Value, parse_redis_value};

/// What a server says is not RESP2.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// Lists within lists; ours are three deep.
const MAX_DEPTH: usize = 32;
/// So much room is made for a list whose items are still to come.
const MAX_ROOM: usize = 256;
/// Longer than any line that is a number.
const MAX_NUMBER: usize = 32;

/// Puts answers together; what was read once is not read again.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// Lists that are not complete, the outer ones first, and how long they will be.
    open: Vec<(Vec<Value>, usize)>,
}

enum Item {
    Value(Value),
    /// The head of a list of so many items.
    List(usize),
}

impl Reader {
    /// Takes the next answer off the front; `None` while it is not complete.
    pub(super) fn next(&mut self, bytes: &mut &[u8]) -> Result<Option<Value>, Malformed> {
        while let Some((item, length)) = item(bytes)? {
            *bytes = &bytes[length..];
            let value = match item {
                Item::Value(value) => value,
                Item::List(0) => Value::Array(Vec::new()),
                Item::List(_) if self.open.len() == MAX_DEPTH => return Err(Malformed),
                Item::List(length) => {
                    self.open.push((Vec::with_capacity(length.min(MAX_ROOM)), length));
                    continue;
                }
            };
            if let Some(answer) = self.place(value) {
                return Ok(Some(answer));
            }
        }
        Ok(None)
    }

    /// Puts a value where it belongs; an answer is complete if it belongs nowhere.
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

/// The first item and its length; `None` while it is not complete.
fn item(bytes: &[u8]) -> Result<Option<(Item, usize)>, Malformed> {
    let Some((&kind, rest)) = bytes.split_first() else { return Ok(None) };
    let is_number = matches!(kind, b':' | b'$' | b'*');
    if !is_number && !matches!(kind, b'+' | b'-') {
        return Err(Malformed);
    }
    let Some(end) = rest.iter().position(|byte| *byte == b'\r') else {
        return if is_number && rest.len() > MAX_NUMBER { Err(Malformed) } else { Ok(None) };
    };
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
                return Ok(Some((Item::Value(Value::Nil), head)));
            };
            let end = head.checked_add(length).ok_or(Malformed)?;
            match bytes.get(end..) {
                Some([b'\r', b'\n', ..]) => {
                    let text = Value::BulkString(bytes[head..end].to_vec());
                    return Ok(Some((Item::Value(text), end + 2)));
                }
                None | Some([] | [b'\r']) => return Ok(None),
                Some(_) => return Err(Malformed),
            }
        }
        b'*' => match usize::try_from(number(line)?) {
            Ok(length) => return Ok(Some((Item::List(length), head))),
            Err(_) => Value::Nil,
        },
        // Seldom on the path of a lock: left to the driver.
        _ => parse_redis_value(&bytes[..head]).map_err(|_| Malformed)?,
    };
    Ok(Some((Item::Value(value), head)))
}

fn number(line: &[u8]) -> Result<i64, Malformed> {
    std::str::from_utf8(line).ok().and_then(|text| text.parse().ok()).ok_or(Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWERS: &[u8] =
        b"*2\r\n*3\r\n:1\r\n$4\r\na\r\nb\r\n$-1\r\n*0\r\n+OK\r\n-NOSCRIPT No such script\r\n*-1\r\n:-7\r\n+QUEUED\r\n";

    fn expected() -> Vec<Value> {
        let error = parse_redis_value(b"-NOSCRIPT No such script\r\n").unwrap();
        let inner = vec![Value::Int(1), Value::BulkString(b"a\r\nb".to_vec()), Value::Nil];
        vec![
            Value::Array(vec![Value::Array(inner), Value::Array(Vec::new())]),
            Value::Okay,
            error,
            Value::Nil,
            Value::Int(-7),
            Value::SimpleString("QUEUED".into()),
        ]
    }

    #[test]
    fn answers_are_the_same_however_they_are_cut() {
        for step in 1..=ANSWERS.len() {
            let (mut reader, mut answers) = (Reader::default(), Vec::new());
            let mut pending = Vec::new();
            for piece in ANSWERS.chunks(step) {
                pending.extend_from_slice(piece);
                let mut bytes = &pending[..];
                while let Some(answer) = reader.next(&mut bytes).unwrap() {
                    answers.push(answer);
                }
                pending = bytes.to_vec();
            }
            assert_eq!(answers, expected(), "pieces of {step}");
            assert!(pending.is_empty());
        }
    }

    #[test]
    fn what_is_no_answer_is_told() {
        let deep = b"*1\r\n".repeat(MAX_DEPTH + 1);
        let endless = [b":".to_vec(), b"1".repeat(MAX_NUMBER + 1)].concat();
        let others: [&[u8]; 6] =
            [b"HTTP/1.1 400", b":x\r\n", b":1\rx", b"$1\r\nabc", b"*x\r\n", b"%1\r\n"];
        for bytes in others.into_iter().chain([&deep[..], &endless[..]]) {
            let told = Reader::default().next(&mut &*bytes);
            assert_eq!(told, Err(Malformed), "{}", String::from_utf8_lossy(bytes));
        }
    }
}
