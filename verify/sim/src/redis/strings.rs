//! Commands on strings, and on keys of any type.

use super::{
    Bytes, Reply, Server,
    server::Call,
    store::{Expiry, Value},
};

pub(super) const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";
pub(super) const WRONG_TYPE: &str =
    "WRONGTYPE Operation against a key holding the wrong kind of value";
const SYNTAX: &str = "ERR syntax error";

/// Reads a number as Redis does: no sign `+`, no leading zeros, no spaces.
pub(super) fn integer(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    let number: i64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

pub(super) fn run(server: &mut Server, call: &Call, name: &str, args: &[Bytes]) -> Reply {
    let (key, now) = (&args[1], call.millis());
    match name {
        "get" | "strlen" => match server.store.get(key, now) {
            None if name == "get" => Reply::Nil,
            None => Reply::Int(0),
            Some(Value::Text(text)) if name == "get" => Reply::text(text),
            Some(Value::Text(text)) => Reply::count(text.len()),
            Some(_) => Reply::error(WRONG_TYPE),
        },
        "type" => Reply::Status(server.store.get(key, now).map_or("none", Value::kind).into()),
        "set" => set(server, call, args),
        "llen" => match server.store.get(key, now) {
            None => Reply::Int(0),
            Some(Value::List(items)) => Reply::count(items.len()),
            Some(_) => Reply::error(WRONG_TYPE),
        },
        "rpush" => match server.store.push(key, &args[2..], now) {
            Some(length) => Reply::count(length),
            None => Reply::error(WRONG_TYPE),
        },
        "del" => Reply::count(args[1..].iter().filter(|key| server.store.delete(key, now)).count()),
        "rename" => {
            if server.store.rename(key, &args[2], now) {
                Reply::ok()
            } else {
                Reply::error("ERR no such key")
            }
        }
        "exists" => {
            let exists = |key: &&Bytes| server.store.get(key, now).is_some();
            Reply::count(args[1..].iter().filter(exists).count())
        }
        "pexpire" | "pexpireat" => expire(server, call, name, args),
        _ => match server.store.expiry(key, now) {
            Expiry::NoKey => Reply::Int(-2),
            Expiry::Never => Reply::Int(-1),
            Expiry::At(at) if name == "pexpiretime" => Reply::Int(at),
            Expiry::At(at) if name == "ttl" => Reply::Int((at - now + 500) / 1_000),
            Expiry::At(at) => Reply::Int((at - now).max(0)),
        },
    }
}

fn expire(server: &mut Server, call: &Call, name: &str, args: &[Bytes]) -> Reply {
    let Some(time) = integer(&args[2]) else { return Reply::error(NOT_AN_INTEGER) };
    let start = if name == "pexpire" { call.millis() } else { 0 };
    let Some(at) = time.checked_add(start) else {
        return Reply::error("ERR invalid expire time in 'pexpire' command");
    };
    Reply::Int(server.store.expire(&args[1], at, call.millis()).into())
}

fn set(server: &mut Server, call: &Call, args: &[Bytes]) -> Reply {
    let now = call.millis();
    let (mut expires, mut only_new, mut only_old, mut keeps_ttl) = (None, false, false, false);
    let mut options = args[3..].iter();
    while let Some(option) = options.next() {
        match option.to_ascii_uppercase().as_slice() {
            b"NX" if !only_old => only_new = true,
            b"XX" if !only_new => only_old = true,
            b"KEEPTTL" if expires.is_none() => keeps_ttl = true,
            unit @ (b"PX" | b"EX" | b"PXAT") if expires.is_none() && !keeps_ttl => {
                let Some(time) = options.next() else { return Reply::error(SYNTAX) };
                expires = Some((unit.to_vec(), time));
            }
            _ => return Reply::error(SYNTAX),
        }
    }
    let mut ends = None;
    if let Some((unit, time)) = expires {
        let Some(time) = integer(time) else { return Reply::error(NOT_AN_INTEGER) };
        let at = match &*unit {
            b"PXAT" => Some(time),
            b"EX" => time.checked_mul(1_000).and_then(|time| time.checked_add(now)),
            _ => time.checked_add(now),
        };
        ends = at.filter(|_| time > 0);
        if ends.is_none() {
            return Reply::error("ERR invalid expire time in 'set' command");
        }
    }
    let is_there = server.store.get(&args[1], now).is_some();
    if (only_new && is_there) || (only_old && !is_there) {
        return Reply::Nil;
    }
    if keeps_ttl && let Expiry::At(at) = server.store.expiry(&args[1], now) {
        ends = Some(at);
    }
    if ends.is_some_and(|at| at <= now) {
        server.store.delete(&args[1], now);
    } else {
        server.store.set(&args[1], args[2].clone(), ends);
    }
    Reply::ok()
}
