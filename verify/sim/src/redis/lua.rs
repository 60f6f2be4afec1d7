//! Scripts: the embedded Lua, and the conversion of values between it and the server.

use std::{cell::RefCell, collections::HashMap};

use mlua::{Function, Lua, LuaString, MultiValue, Table, Value};

use super::{
    Bytes, Reply, Server, commands,
    server::{Call, ScriptState},
};

/// A replacement in the text of scripts that disables a guard.
#[derive(Clone, Copy, Debug)]
pub struct Patch {
    /// The text that is replaced.
    pub from: &'static str,
    /// The replacement.
    pub to: &'static str,
}

thread_local! {
    static ENGINE: RefCell<Option<Engine>> = const { RefCell::new(None) };
    /// The replacements, each with whether it was applied to a script.
    static PATCHES: RefCell<Vec<(Patch, bool)>> = const { RefCell::new(Vec::new()) };
    /// The server whose script runs.
    static CURRENT: RefCell<Option<Running>> = const { RefCell::new(None) };
}

struct Running {
    server: Server,
    call: Call,
}

/// The interpreter of a thread, with the scripts that it has compiled.
struct Engine {
    lua: Lua,
    redis: Table,
    /// The compiled scripts by the SHA-1 of their texts.
    compiled: HashMap<String, Function>,
}

/// A script that a server knows.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) sha: String,
    pub(super) text: Bytes,
}

impl Script {
    pub(super) fn new(text: &[u8]) -> Self {
        Self { sha: sha1(text), text: text.to_vec() }
    }

    /// Returns whether its first line has this flag.
    pub(super) fn has_flag(&self, flag: &str) -> bool {
        let flags = self.text.strip_prefix(b"#!lua");
        let flags = flags.and_then(|rest| rest.split(|b| *b == b'\n').next());
        flags.is_some_and(|line| String::from_utf8_lossy(line).contains(flag))
    }
}

/// Sets the replacements for all scripts that this thread runs from now on.
pub fn set_patches(patches: Vec<Patch>) {
    PATCHES.set(patches.into_iter().map(|patch| (patch, false)).collect());
    ENGINE.set(None);
}

/// Returns the texts of replacements that were applied to no script of this thread since they were
/// set.
pub fn unused_patches() -> Vec<&'static str> {
    PATCHES.with_borrow(|patches| {
        let unused = patches.iter().filter(|(_, is_used)| !is_used);
        unused.map(|(patch, _)| patch.from).collect()
    })
}

fn sha1(text: &[u8]) -> String {
    sha1_smol::Sha1::from(text).digest().to_string()
}

/// Compiles a script; the error is the reply.
pub(super) fn check(script: &Script) -> Result<(), String> {
    with_engine(|engine| engine.compile(script).map(drop))
        .map_err(|error| format!("ERR Error compiling script (new function): {error}"))
}

fn with_engine<T>(run: impl FnOnce(&mut Engine) -> mlua::Result<T>) -> mlua::Result<T> {
    ENGINE.with_borrow_mut(|slot| {
        if slot.is_none() {
            *slot = Some(Engine::new()?);
        }
        match slot {
            Some(engine) => run(engine),
            None => Err(mlua::Error::runtime("no engine")),
        }
    })
}

/// Runs a script on a server.
pub(super) fn eval(
    server: &mut Server,
    call: &Call,
    script: &Script,
    keys: &[Bytes],
    args: &[Bytes],
) -> Reply {
    let allows_oom = script.has_flag("allow-oom");
    let state = ScriptState { is_full: server.is_full(), allows_oom, is_dirty: false };
    let call = Call { script: Some(state), ..*call };
    CURRENT.set(Some(Running { server: std::mem::take(server), call }));
    let reply = with_engine(|engine| engine.run(script, keys, args));
    if let Some(running) = CURRENT.take() {
        *server = running.server;
    }
    match reply {
        Ok(reply) => reply,
        Err(error) => Reply::Error(format!("ERR {error} script: {}", script.sha)),
    }
}

/// Returns the text to compile: without the line of flags, and with the replacements.
fn patched(text: &[u8]) -> Bytes {
    let body = match text.strip_prefix(b"#!lua") {
        Some(rest) => rest.iter().position(|b| *b == b'\n').map_or(rest, |at| &rest[at..]),
        None => text,
    };
    let mut body = body.to_vec();
    PATCHES.with_borrow_mut(|patches| {
        for (Patch { from, to }, is_used) in patches {
            let text = String::from_utf8_lossy(&body);
            if text.contains(*from) {
                *is_used = true;
                body = text.replace(*from, to).into_bytes();
            }
        }
    });
    body
}

impl Engine {
    fn new() -> mlua::Result<Self> {
        let lua = Lua::new();
        let redis = lua.create_table()?;
        redis.set("call", lua.create_function(|lua, args| command(lua, &args, true))?)?;
        redis.set("pcall", lua.create_function(|lua, args| command(lua, &args, false))?)?;
        let sha1hex = |_: &Lua, text: LuaString| Ok(sha1(&text.as_bytes()));
        redis.set("sha1hex", lua.create_function(sha1hex)?)?;
        lua.globals().set("redis", &redis)?;
        Ok(Self { lua, redis, compiled: HashMap::new() })
    }

    fn compile(&mut self, script: &Script) -> mlua::Result<Function> {
        if let Some(function) = self.compiled.get(&script.sha) {
            return Ok(function.clone());
        }
        let text = patched(&script.text);
        let function = self.lua.load(text).set_name("@user_script").into_function()?;
        self.compiled.insert(script.sha.clone(), function.clone());
        Ok(function)
    }

    fn run(&mut self, script: &Script, keys: &[Bytes], args: &[Bytes]) -> mlua::Result<Reply> {
        let function = match self.compile(script) {
            Ok(function) => function,
            Err(error) => {
                return Ok(Reply::Error(format!(
                    "ERR Error compiling script (new function): {error}"
                )));
            }
        };
        let globals = self.lua.globals();
        for (name, values) in [("KEYS", keys), ("ARGV", args)] {
            let table = self.lua.create_table_with_capacity(values.len(), 0)?;
            for (index, value) in values.iter().enumerate() {
                table.raw_set(index + 1, self.lua.create_string(value)?)?;
            }
            globals.raw_set(name, table)?;
        }
        // A script that fails in `redis.call` leaves its error here.
        self.redis.raw_set("failed", Value::Nil)?;
        match function.call::<Value>(()) {
            Ok(value) => to_reply(value),
            Err(error) => match self.redis.raw_get::<Option<LuaString>>("failed")? {
                Some(failed) => {
                    let failed = failed.to_string_lossy();
                    let sha = &script.sha;
                    Ok(Reply::Error(format!("{failed} script: {sha}, on @user_script:1.")))
                }
                None => Err(error),
            },
        }
    }
}

/// Implements `redis.call` and `redis.pcall`.
fn command(lua: &Lua, args: &MultiValue, fails: bool) -> mlua::Result<Value> {
    let args = args.iter().map(argument).collect::<mlua::Result<Vec<_>>>()?;
    let reply = CURRENT.with_borrow_mut(|running| match running {
        Some(Running { server, call }) => commands::run(server, call, &args),
        None => Reply::error("ERR no server"),
    });
    if let (Reply::Error(text), true) = (&reply, fails) {
        lua.globals().get::<Table>("redis")?.raw_set("failed", lua.create_string(text)?)?;
        return Err(mlua::Error::runtime(text));
    }
    to_lua(lua, reply)
}

/// Numbers are formatted with `%.17g`, as Redis does.
#[allow(clippy::cast_possible_truncation, clippy::float_cmp)]
fn argument(value: &Value) -> mlua::Result<Bytes> {
    match value {
        Value::String(text) => Ok(text.as_bytes().to_vec()),
        Value::Integer(number) => Ok(number.to_string().into_bytes()),
        Value::Number(number) if number.trunc() == *number && number.abs() < 1e17 => {
            Ok((*number as i64).to_string().into_bytes())
        }
        Value::Number(number) => Ok(number.to_string().into_bytes()),
        _ => {
            Err(mlua::Error::runtime("Lua redis lib command arguments must be strings or integers"))
        }
    }
}

#[allow(clippy::cast_precision_loss)]
fn to_lua(lua: &Lua, reply: Reply) -> mlua::Result<Value> {
    Ok(match reply {
        Reply::Int(number) => Value::Number(number as f64),
        Reply::Bulk(bytes) => Value::String(lua.create_string(bytes)?),
        Reply::Nil => Value::Boolean(false),
        Reply::Status(text) => {
            let table = lua.create_table()?;
            table.raw_set("ok", text)?;
            Value::Table(table)
        }
        Reply::Error(text) => {
            let table = lua.create_table()?;
            table.raw_set("err", text)?;
            Value::Table(table)
        }
        Reply::Array(items) => {
            let table = lua.create_table_with_capacity(items.len(), 0)?;
            for (index, item) in items.into_iter().enumerate() {
                table.raw_set(index + 1, to_lua(lua, item)?)?;
            }
            Value::Table(table)
        }
    })
}

#[allow(clippy::cast_possible_truncation)]
fn to_reply(value: Value) -> mlua::Result<Reply> {
    Ok(match value {
        Value::String(text) => Reply::Bulk(text.as_bytes().to_vec()),
        Value::Integer(number) => Reply::Int(number),
        // Truncated towards zero, like a cast in C.
        Value::Number(number) => Reply::Int(number as i64),
        Value::Boolean(true) => Reply::Int(1),
        Value::Table(table) => {
            if let Some(text) = table.raw_get::<Option<LuaString>>("err")? {
                return Ok(Reply::Error(text.to_string_lossy()));
            }
            if let Some(text) = table.raw_get::<Option<LuaString>>("ok")? {
                return Ok(Reply::Status(text.to_string_lossy()));
            }
            let mut items = Vec::new();
            for index in 1.. {
                match table.raw_get::<Value>(index)? {
                    Value::Nil => break,
                    item => items.push(to_reply(item)?),
                }
            }
            Reply::Array(items)
        }
        _ => Reply::Nil,
    })
}
