//! INFO and CONFIG GET.

use std::fmt::Write;

use super::{Bytes, Condition, Reply, Role, Server};

pub(super) fn info(server: &Server, args: &[Bytes]) -> Reply {
    let wanted = |section: &str| {
        let names = &args[1..];
        names.is_empty() || names.iter().any(|name| name.eq_ignore_ascii_case(section.as_bytes()))
    };
    let role = match server.role {
        Role::Master => "master",
        Role::Replica => "slave",
    };
    let sections = [
        ("server", vec![("redis_version", "7.0.15".to_owned()), ("run_id", server.run_id.clone())]),
        (
            "memory",
            vec![
                ("used_memory", server.store.used().to_string()),
                ("maxmemory", server.maxmemory.to_string()),
                ("maxmemory_policy", server.policy.clone()),
            ],
        ),
        (
            "persistence",
            vec![
                ("loading", u8::from(server.condition == Condition::Loading).to_string()),
                ("aof_enabled", "0".to_owned()),
            ],
        ),
        ("replication", vec![("role", role.to_owned()), ("master_replid", server.replid.clone())]),
    ];
    let mut text = String::new();
    for (section, fields) in sections {
        if wanted(section) {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            // Writing into memory does not fail.
            let _ = write!(text, "# {section}\r\n");
            for (name, value) in fields {
                let _ = write!(text, "{name}:{value}\r\n");
            }
        }
    }
    Reply::text(text)
}

pub(super) fn config(server: &mut Server, args: &[Bytes]) -> Reply {
    let text = |at: usize| args.get(at).map(|arg| String::from_utf8_lossy(arg).to_lowercase());
    match (text(1).as_deref(), text(2).as_deref(), text(3)) {
        (Some("get"), Some("save"), _) => Reply::Array(vec![Reply::text("save"), Reply::text("")]),
        (Some("get"), _, _) => Reply::Array(Vec::new()),
        (Some("set"), Some("maxmemory"), Some(bytes)) => {
            server.maxmemory = bytes.parse().unwrap_or(0);
            Reply::ok()
        }
        (Some("set"), Some("maxmemory-policy"), Some(policy)) => {
            server.policy = policy;
            Reply::ok()
        }
        _ => Reply::ok(),
    }
}
