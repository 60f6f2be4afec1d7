//! The part of the server's wire format (RESP2) that tests need.

/// One reply, or one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resp {
    Simple(String),
    /// The message, with its code but without the leading `-`.
    Error(String),
    Int(i64),
    /// `None` is the null reply.
    Bulk(Option<Vec<u8>>),
    Array(Vec<Resp>),
}

impl Resp {
    /// The number. Panics for any other reply.
    #[track_caller]
    pub fn int(&self) -> i64 {
        match self {
            Self::Int(value) => *value,
            other => panic!("expected an integer, got {other:?}"),
        }
    }

    /// The string's bytes, or `None` for the null reply. Panics for any other reply.
    #[track_caller]
    pub fn bytes(self) -> Option<Vec<u8>> {
        match self {
            Self::Simple(text) => Some(text.into_bytes()),
            Self::Bulk(bytes) => bytes,
            other => panic!("expected a string, got {other:?}"),
        }
    }

    /// The string. Panics for any other reply, null included.
    #[track_caller]
    pub fn text(self) -> String {
        let bytes = self.bytes().expect("expected a string, got null");
        String::from_utf8(bytes).expect("expected UTF-8")
    }

    /// The array's items. Panics for any other reply.
    #[track_caller]
    pub fn items(self) -> Vec<Resp> {
        match self {
            Self::Array(items) => items,
            other => panic!("expected an array, got {other:?}"),
        }
    }
}

/// A command as clients send it: an array of bulk strings.
pub fn encode(args: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        let arg = arg.as_ref();
        out.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
    out
}

/// Parses the value at the start of `input`, and returns it with its length, or `None` while it is
/// incomplete. Panics if the input is not RESP2.
pub fn decode(input: &[u8]) -> Option<(Resp, usize)> {
    let end = input.windows(2).position(|pair| pair == b"\r\n")?;
    let line = std::str::from_utf8(&input[..end]).expect("a line is UTF-8");
    let mut used = end + 2;
    let (kind, rest) = line.split_at_checked(1).expect("a line starts with its type");
    let number = || rest.parse::<i64>().unwrap_or_else(|_| panic!("no number in {line:?}"));
    let value = match kind {
        "+" => Resp::Simple(rest.to_owned()),
        "-" => Resp::Error(rest.to_owned()),
        ":" => Resp::Int(number()),
        "$" => match usize::try_from(number()) {
            Err(_) => Resp::Bulk(None),
            Ok(length) => {
                let body = input.get(used..used + length + 2)?;
                used += body.len();
                Resp::Bulk(Some(body[..length].to_vec()))
            }
        },
        "*" => match usize::try_from(number()) {
            Err(_) => Resp::Bulk(None),
            Ok(length) => {
                let mut items = Vec::new();
                for _ in 0..length {
                    let (item, length) = decode(&input[used..])?;
                    used += length;
                    items.push(item);
                }
                Resp::Array(items)
            }
        },
        _ => panic!("not RESP2: {line:?}"),
    };
    Some((value, used))
}
