//! SCAN and HSCAN: every element that exists from the first page to the last is in one of them.

use super::{
    Bytes, Reply, Server,
    server::Call,
    store::Value,
    strings::{NOT_AN_INTEGER, WRONG_TYPE, integer},
};

/// Returns the position of an element in the order of the pages, above zero: FNV-1a, without its
/// upper bits, as a cursor must be a number in Lua as well.
fn place(name: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    (name.iter().fold(0xcbf2_9ce4_8422_2325, step) >> 16).max(1)
}

struct Options {
    cursor: u64,
    count: usize,
    pattern: Option<Bytes>,
    /// The type of the keys; HSCAN has none.
    kind: Option<Bytes>,
}

fn options(cursor: &Bytes, rest: &[Bytes]) -> Result<Options, Reply> {
    let cursor = std::str::from_utf8(cursor).ok().and_then(|text| text.parse().ok());
    let Some(cursor) = cursor else { return Err(Reply::error("ERR invalid cursor")) };
    let mut options = Options { cursor, count: 10, pattern: None, kind: None };
    for pair in rest.chunks(2) {
        let [name, value] = pair else { return Err(Reply::error("ERR syntax error")) };
        match name.to_ascii_uppercase().as_slice() {
            b"COUNT" => match integer(value) {
                None => return Err(Reply::error(NOT_AN_INTEGER)),
                Some(count) if count < 1 => return Err(Reply::error("ERR syntax error")),
                Some(count) => options.count = usize::try_from(count).unwrap_or(usize::MAX),
            },
            b"MATCH" => options.pattern = Some(value.clone()),
            b"TYPE" => options.kind = Some(value.to_ascii_lowercase()),
            _ => return Err(Reply::error("ERR syntax error")),
        }
    }
    Ok(options)
}

/// Matches a pattern of the kind `prefix*`, with `\` before literal characters.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match pattern {
        [] => name.is_empty(),
        [b'*'] => true,
        [b'*', rest @ ..] => (0..=name.len()).any(|at| matches(rest, &name[at..])),
        [b'\\', first, rest @ ..] | [first, rest @ ..] => {
            name.split_first().is_some_and(|(head, name)| head == first && matches(rest, name))
        }
    }
}

/// Returns the elements of a page, and the cursor of the next one.
fn page<'a, T>(
    elements: impl Iterator<Item = (&'a Bytes, T)>,
    options: &Options,
) -> (u64, Vec<(&'a Bytes, T)>) {
    let mut rest: Vec<_> = elements
        .map(|(name, element)| (place(name), name, element))
        .filter(|(at, ..)| *at > options.cursor)
        .collect();
    rest.sort_by(|one, other| (one.0, one.1).cmp(&(other.0, other.1)));
    // Elements at the same position are in the same page.
    let end = rest.get(options.count - 1).map(|(at, ..)| *at);
    let length = end.map_or(rest.len(), |end| rest.partition_point(|(at, ..)| *at <= end));
    let cursor = if length == rest.len() { 0 } else { end.unwrap_or(0) };
    rest.truncate(length);
    let is_wanted = |name: &[u8]| options.pattern.as_ref().is_none_or(|of| matches(of, name));
    let found = rest.into_iter().filter(|(_, name, _)| is_wanted(name));
    (cursor, found.map(|(_, name, element)| (name, element)).collect())
}

/// KEYS.
pub(super) fn matching(server: &Server, call: &Call, pattern: &[u8]) -> Reply {
    let all = server.store.keys(call.millis()).filter(|key| matches(pattern, key));
    Reply::Array(all.map(Reply::text).collect())
}

fn reply(cursor: u64, items: Vec<Reply>) -> Reply {
    Reply::Array(vec![Reply::text(cursor.to_string()), Reply::Array(items)])
}

pub(super) fn keys(server: &Server, call: &Call, args: &[Bytes]) -> Reply {
    match options(&args[1], &args[2..]) {
        Err(error) => error,
        Ok(options) => {
            let all = server.store.keys(call.millis()).map(|key| (key, ()));
            let (cursor, found) = page(all, &options);
            let is_wanted = |key: &&Bytes| {
                let value = server.store.get(key, call.millis());
                let is_of =
                    |kind: &Bytes| value.is_some_and(|value| value.kind().as_bytes() == kind);
                options.kind.as_ref().is_none_or(is_of)
            };
            let keys = found.into_iter().map(|(key, ())| key).filter(is_wanted);
            reply(cursor, keys.map(Reply::text).collect())
        }
    }
}

pub(super) fn fields(server: &Server, call: &Call, args: &[Bytes]) -> Reply {
    let options = match options(&args[2], &args[3..]) {
        Ok(Options { kind: Some(_), .. }) => return Reply::error("ERR syntax error"),
        Ok(options) => options,
        Err(error) => return error,
    };
    match server.store.get(&args[1], call.millis()) {
        None => reply(0, Vec::new()),
        Some(Value::Hash(fields)) => {
            let (cursor, found) = page(fields.iter(), &options);
            let items = found.into_iter().flat_map(|(f, v)| [Reply::text(f), Reply::text(v)]);
            reply(cursor, items.collect())
        }
        Some(_) => Reply::error(WRONG_TYPE),
    }
}
