//! Commands on hashes.

use super::{Bytes, Reply, Server, server::Call, store::Value, strings::WRONG_TYPE};

pub(super) fn run(server: &mut Server, call: &Call, name: &str, args: &[Bytes]) -> Reply {
    let (key, now) = (&args[1], call.millis());
    if name == "hset" || name == "hsetnx" {
        return set(server, now, name, args);
    }
    if name == "hdel" {
        return delete(server, now, args);
    }
    let fields = match server.store.get(key, now) {
        None => None,
        Some(Value::Hash(fields)) => Some(fields),
        Some(_) => return Reply::error(WRONG_TYPE),
    };
    let of =
        |field: &Bytes| fields.and_then(|fields| fields.get(field)).map_or(Reply::Nil, Reply::text);
    match name {
        "hget" => of(&args[2]),
        "hmget" => Reply::Array(args[2..].iter().map(of).collect()),
        "hlen" => Reply::count(fields.map_or(0, std::collections::BTreeMap::len)),
        _ => {
            let all = fields.into_iter().flatten();
            Reply::Array(all.flat_map(|(f, v)| [Reply::text(f), Reply::text(v)]).collect())
        }
    }
}

fn delete(server: &mut Server, now: i64, args: &[Bytes]) -> Reply {
    let key = &args[1];
    match server.store.get(key, now) {
        None => return Reply::Int(0),
        Some(Value::Hash(_)) => {}
        Some(_) => return Reply::error(WRONG_TYPE),
    }
    let Some(fields) = server.store.hash_mut(key, now) else { return Reply::error(WRONG_TYPE) };
    let removed = args[2..].iter().filter(|field| fields.remove(*field).is_some()).count();
    if fields.is_empty() {
        server.store.delete(key, now);
    }
    Reply::count(removed)
}

fn set(server: &mut Server, now: i64, name: &str, args: &[Bytes]) -> Reply {
    if !args.len().is_multiple_of(2) {
        return Reply::error(format!("ERR wrong number of arguments for '{name}' command"));
    }
    let Some(fields) = server.store.hash_mut(&args[1], now) else {
        return Reply::error(WRONG_TYPE);
    };
    let mut added = 0;
    for pair in args[2..].chunks_exact(2) {
        let is_new = !fields.contains_key(&pair[0]);
        added += i64::from(is_new);
        if is_new || name == "hset" {
            fields.insert(pair[0].clone(), pair[1].clone());
        }
    }
    Reply::Int(added)
}
