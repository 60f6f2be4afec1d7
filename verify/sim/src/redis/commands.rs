//! The table of commands, and commands that use neither keys nor fields.

use std::sync::Arc;

use super::{
    Bytes, Condition, MasterReport, Reply, Role, Server, hashes, info,
    lua::{self, Script},
    scan,
    server::Call,
    sorted, strings,
};

/// The properties that are checked before a command runs.
struct Traits {
    /// Minimum and maximum number of arguments, including the name.
    min: usize,
    max: usize,
    writes: bool,
    /// Whether the command is refused when memory is low.
    grows: bool,
    in_scripts: bool,
}

const MANY: usize = usize::MAX;

#[allow(clippy::match_same_arms, reason = "a table, in the order of what the commands are about")]
fn traits(name: &str) -> Option<Traits> {
    let of = |min, max, writes, grows| Traits { min, max, writes, grows, in_scripts: true };
    Some(match name {
        "get" | "pttl" | "pexpiretime" | "hgetall" | "hlen" | "strlen" | "type" | "ttl"
        | "keys" | "llen" => of(2, 2, false, false),
        "set" => of(3, MANY, true, true),
        "rpush" => of(3, MANY, true, true),
        "del" => of(2, MANY, true, false),
        "exists" => of(2, MANY, false, false),
        "rename" => of(3, 3, true, false),
        "pexpire" | "pexpireat" => of(3, 4, true, false),
        "zcard" => of(2, 2, false, false),
        "zscore" => of(3, 3, false, false),
        "zrange" => of(4, MANY, false, false),
        "zadd" => of(4, MANY, true, true),
        "zrem" => of(3, MANY, true, false),
        "zremrangebyscore" => of(4, 4, true, false),
        "hget" => of(3, 3, false, false),
        "hmget" => of(3, MANY, false, false),
        "hset" => of(4, MANY, true, true),
        "hdel" => of(3, MANY, true, false),
        "hsetnx" => of(4, 4, true, true),
        "hscan" => of(3, MANY, false, false),
        "scan" => of(2, MANY, false, false),
        "time" => of(1, 1, false, false),
        "info" => of(1, MANY, false, false),
        "ping" => of(1, 2, false, false),
        "publish" => of(3, 3, false, false),
        "pubsub" => of(2, MANY, false, false),
        "dbsize" => of(1, 1, false, false),
        "flushall" => of(1, 3, true, false),
        "auth" => Traits { in_scripts: false, ..of(2, 3, false, false) },
        "select" => of(2, 2, false, false),
        "config" => Traits { in_scripts: false, ..of(2, MANY, false, false) },
        "script" | "client" | "acl" => Traits { in_scripts: false, ..of(2, MANY, false, false) },
        "sentinel" => Traits { in_scripts: false, ..of(3, 3, false, false) },
        "eval" | "evalsha" => Traits { in_scripts: false, ..of(3, MANY, false, false) },
        "subscribe" => Traits { in_scripts: false, ..of(2, MANY, false, false) },
        "unsubscribe" => Traits { in_scripts: false, ..of(1, MANY, false, false) },
        _ => return None,
    })
}

/// Commands that a server answers while it loads its data.
const WHILE_LOADING: [&str; 11] = [
    "acl",
    "auth",
    "client",
    "config",
    "info",
    "publish",
    "pubsub",
    "select",
    "subscribe",
    "time",
    "unsubscribe",
];
const BUSY: &str =
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";
const LOADING: &str = "LOADING Redis is loading the dataset in memory";
const OOM: &str = "OOM command not allowed when used memory > 'maxmemory'.";
const READONLY: &str = "READONLY You can't write against a read only replica.";

/// Runs a command of a client. SUBSCRIBE and UNSUBSCRIBE have a reply for each channel.
pub(super) fn from_client(server: &mut Server, call: &mut Call, args: &[Bytes]) -> Vec<Reply> {
    let name = name(args);
    match server.condition {
        Condition::Busy if name != "auth" => return vec![Reply::error(BUSY)],
        Condition::Loading if !WHILE_LOADING.contains(&&*name) => {
            return vec![Reply::error(LOADING)];
        }
        Condition::Busy | Condition::Loading | Condition::Ready => {}
    }
    match &*name {
        "subscribe" | "unsubscribe" if traits(&name).is_some_and(|of| args.len() >= of.min) => {
            listen(server, call, &name, &args[1..])
        }
        "ping" if args.len() == 1 && server.is_listening(call.conn) => {
            vec![Reply::Array(vec![Reply::text("pong"), Reply::text("")])]
        }
        _ => vec![run(server, call, args)],
    }
}

/// Runs a command of a client or of a script.
pub(super) fn run(server: &mut Server, call: &mut Call, args: &[Bytes]) -> Reply {
    let name = name(args);
    let is_script = call.script.is_some();
    let Some(of) = traits(&name) else {
        return Reply::error(if is_script {
            "ERR Unknown Redis command called from script".into()
        } else {
            unknown(args)
        });
    };
    if !(of.min..=of.max).contains(&args.len()) {
        return Reply::error(if is_script {
            "ERR Wrong number of args calling Redis command from script".into()
        } else {
            format!("ERR wrong number of arguments for '{name}' command")
        });
    }
    if is_script && !of.in_scripts {
        return Reply::error("ERR This Redis command is not allowed from script");
    }
    if of.writes && server.role == Role::Replica {
        return Reply::error(READONLY);
    }
    let is_full = match call.script {
        Some(script) => script.is_full && !script.allows_oom && !script.is_dirty,
        None => server.is_full(),
    };
    if of.grows && is_full {
        return Reply::error(OOM);
    }
    if of.writes
        && let Some(script) = &mut call.script
    {
        script.is_dirty = true;
    }
    match &*name {
        "get" | "set" | "rename" | "rpush" | "llen" | "del" | "exists" | "strlen" | "type"
        | "pexpire" | "pexpireat" | "pttl" | "ttl" | "pexpiretime" => {
            strings::run(server, call, &name, args)
        }
        "hget" | "hmget" | "hset" | "hsetnx" | "hdel" | "hlen" | "hgetall" => {
            hashes::run(server, call, &name, args)
        }
        "zadd" | "zcard" | "zrange" | "zrem" | "zremrangebyscore" | "zscore" => {
            sorted::run(server, call, &name, args)
        }
        "keys" => scan::matching(server, call, &args[1]),
        "scan" => scan::keys(server, call, args),
        "hscan" => scan::fields(server, call, args),
        "info" => info::info(server, args),
        "config" => info::config(server, args),
        "sentinel" if !server.reports.is_empty() => sentinel(server, args),
        "sentinel" => Reply::error(unknown(args)),
        "script" => script(server, args),
        "eval" | "evalsha" => eval(server, call, &name, args),
        "time" => Reply::Array(vec![
            Reply::text((call.now / 1_000_000).to_string()),
            Reply::text((call.now % 1_000_000).to_string()),
        ]),
        "ping" => args.get(1).map_or_else(|| Reply::Status("PONG".into()), Reply::text),
        "publish" => publish(server, &args[1], &args[2]),
        "pubsub" => pubsub(server, args),
        "dbsize" => Reply::count(server.store.keys(call.millis()).count()),
        "flushall" => {
            server.store.clear();
            Reply::ok()
        }
        _ => Reply::ok(),
    }
}

fn name(args: &[Bytes]) -> String {
    args.first().map_or_else(String::new, |name| String::from_utf8_lossy(name).to_ascii_lowercase())
}

fn unknown(args: &[Bytes]) -> String {
    // A zero byte ends a C string.
    let shown = |arg: &Bytes| {
        let end = arg.iter().position(|byte| *byte == 0).unwrap_or(arg.len());
        String::from_utf8_lossy(&arg[..end]).into_owned()
    };
    let rest: Vec<_> = args.iter().skip(1).map(|arg| format!("'{}' ", shown(arg))).collect();
    let name = args.first().map_or_else(String::new, shown);
    format!("ERR unknown command '{name}', with args beginning with: {}", rest.concat())
}

/// A server's address is its number, as the port.
fn sentinel(server: &Server, args: &[Bytes]) -> Reply {
    let name = String::from_utf8_lossy(&args[2]).into_owned();
    let Some(MasterReport { epoch, master }) = server.reports.get(&name) else { return Reply::Nil };
    let texts = |texts: &[&str]| Reply::Array(texts.iter().map(Reply::text).collect());
    let (epoch, port) = (epoch.to_string(), master.to_string());
    if args[1].eq_ignore_ascii_case(b"master") {
        texts(&["name", &name, "ip", "s", "port", &port, "config-epoch", &epoch])
    } else {
        texts(&["s", &port])
    }
}

fn script(server: &mut Server, args: &[Bytes]) -> Reply {
    match (args[1].to_ascii_lowercase().as_slice(), args.get(2)) {
        (b"load", Some(text)) => {
            let script = Script::new(text);
            if let Err(error) = lua::check(&script) {
                return Reply::Error(error);
            }
            let sha = script.sha.clone();
            server.scripts.insert(sha.clone(), Arc::new(script));
            Reply::text(sha)
        }
        (b"flush", _) => {
            server.scripts.clear();
            Reply::ok()
        }
        _ => {
            Reply::error("ERR unknown subcommand or wrong number of arguments for 'script' command")
        }
    }
}

fn eval(server: &mut Server, call: &Call, name: &str, args: &[Bytes]) -> Reply {
    let Some(count) = strings::integer(&args[2]) else {
        return Reply::error(strings::NOT_AN_INTEGER);
    };
    let Ok(count) = usize::try_from(count) else {
        return Reply::error("ERR Number of keys can't be negative");
    };
    if count > args.len() - 3 {
        return Reply::error("ERR Number of keys can't be greater than number of args");
    }
    let script = if name == "eval" {
        let script = Arc::new(Script::new(&args[1]));
        server.scripts.insert(script.sha.clone(), script.clone());
        script
    } else {
        let sha = String::from_utf8_lossy(&args[1]).to_ascii_lowercase();
        match server.scripts.get(&sha) {
            Some(script) => script.clone(),
            None => return Reply::error("NOSCRIPT No matching script. Please use EVAL."),
        }
    };
    // The flags in a script's first line are checked before it runs.
    if script.text.starts_with(b"#!lua") {
        if server.role == Role::Replica && !script.has_flag("no-writes") {
            return Reply::error(READONLY);
        }
        if server.is_full() && !script.has_flag("allow-oom") {
            return Reply::error(OOM);
        }
    }
    let (keys, args) = args[3..].split_at(count);
    lua::eval(server, call, &script, keys, args)
}

fn listen(server: &mut Server, call: &Call, name: &str, channels: &[Bytes]) -> Vec<Reply> {
    let conn = call.conn;
    let count = |server: &Server| {
        Reply::count(server.channels.values().filter(|all| all.contains(&conn)).count())
    };
    if name == "subscribe" {
        let enter = |channel: &Bytes| {
            server.channels.entry(channel.clone()).or_default().insert(conn);
            Reply::Array(vec![Reply::text(name), Reply::text(channel), count(server)])
        };
        return channels.iter().map(enter).collect();
    }
    let left: Vec<Bytes> = if channels.is_empty() {
        let all = server.channels.iter().filter(|(_, all)| all.contains(&conn));
        all.map(|(channel, _)| channel.clone()).collect()
    } else {
        channels.to_vec()
    };
    if left.is_empty() {
        return vec![Reply::Array(vec![Reply::text(name), Reply::Nil, count(server)])];
    }
    let leave = |channel: &Bytes| {
        if let Some(listeners) = server.channels.get_mut(channel) {
            listeners.remove(&conn);
            if listeners.is_empty() {
                server.channels.remove(channel);
            }
        }
        Reply::Array(vec![Reply::text(name), Reply::text(channel), count(server)])
    };
    left.iter().map(leave).collect()
}

fn publish(server: &mut Server, channel: &Bytes, text: &Bytes) -> Reply {
    let listeners: Vec<_> = server.channels.get(channel).into_iter().flatten().copied().collect();
    for listener in &listeners {
        let message = vec![Reply::text("message"), Reply::text(channel), Reply::text(text)];
        server.pushed.push((*listener, Reply::Array(message)));
    }
    Reply::count(listeners.len())
}

fn pubsub(server: &Server, args: &[Bytes]) -> Reply {
    if !args[1].eq_ignore_ascii_case(b"numsub") {
        return Reply::error(
            "ERR unknown subcommand or wrong number of arguments for 'pubsub' command",
        );
    }
    let counts = args[2..].iter().flat_map(|channel| {
        let count = server.channels.get(channel).map_or(0, std::collections::BTreeSet::len);
        [Reply::text(channel), Reply::count(count)]
    });
    Reply::Array(counts.collect())
}
