//! Commands without a reader of their output, and without servers.

use std::{
    fs::File,
    io::Read,
    process::{Command, Stdio},
};

use crate::{
    fixture::{enrolled, nodes, store, store_record, wait},
    program::{PATIENT, run},
    support::RedisServer,
};

/// The commands that print something to the standard output.
const PRINTING: [&[&str]; 11] = [
    &["status"],
    &["status", "--json"],
    &["status", "--watch"],
    &["ls"],
    &["ls", "--json"],
    &["inspect", "job"],
    &["once", "status", "key"],
    &["once", "ls"],
    &["doctor", "--no-probe"],
    &["completions", "bash"],
    &["man"],
];

/// Runs the program with that standard output. Returns its exit code and what it says.
fn with_stdout(servers: &[RedisServer], args: &[&str], stdout: Stdio) -> (Option<i32>, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_redlock"))
        .args(PATIENT)
        .args(args)
        .env("REDLOCK_NODES", nodes(servers))
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(Stdio::piped())
        .spawn()
        .expect("redlock starts");
    let code = wait(&mut child);
    let mut said = String::new();
    child.stderr.take().expect("it is piped").read_to_string(&mut said).expect("UTF-8");
    (code, said)
}

fn servers() -> Vec<RedisServer> {
    let servers = enrolled(1);
    store(&servers, "job", "me", 1);
    store_record(&servers, "key", 'd', "me");
    servers
}

#[test]
fn closed_output_ends_silently() {
    let servers = servers();
    for args in PRINTING {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        assert_eq!(
            with_stdout(&servers, args, writer.into()),
            (Some(141), String::new()),
            "{args:?}"
        );
    }
}

#[test]
fn head_ends_a_long_list() {
    let servers = servers();
    for i in 0..300 {
        store(&servers, &format!("n{i}"), "me", 1);
    }
    let script = format!("'{}' ls | head -n 1", env!("CARGO_BIN_EXE_redlock"));
    let output = Command::new("sh")
        .args(["-c", &script])
        .env("REDLOCK_NODES", nodes(&servers))
        .env("REDLOCK_CONFIG", PATIENT[1])
        .output()
        .expect("sh starts");
    assert!(output.stdout.starts_with(b"NAME"), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}

#[test]
fn closed_output_breaks_no_lock() {
    let servers = servers();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let (code, _) = with_stdout(&servers, &["break", "job", "--yes"], writer.into());
    assert_eq!(code, Some(141));
    assert!(servers[0].exists("redlock:lock:job"));
}

#[cfg(target_os = "linux")]
#[test]
fn full_disk_is_an_error() {
    let servers = servers();
    for args in PRINTING {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let (code, said) = with_stdout(&servers, args, full.into());
        assert_eq!(code, Some(74), "{args:?}: {said}");
        assert!(said.contains("redlock: the standard output: "), "{args:?}: {said}");
    }
}

#[test]
fn every_command_needs_servers() {
    let commands: [&[&str]; 14] = [
        &["status"],
        &["status", "--watch"],
        &["ls"],
        &["inspect", "a"],
        &["break", "a", "--yes"],
        &["doctor"],
        &["doctor", "--wait"],
        &["adopt", "--from-prefix=a", "--yes"],
        &["lower-max-ttl"],
        &["once", "status", "a"],
        &["once", "done", "a"],
        &["once", "forget", "a", "--yes"],
        &["once", "ls"],
        &["bench"],
    ];
    for args in commands {
        let outcome = run("", args);
        outcome.is(78, &["redlock: no servers: give --nodes redis://host:port"]);
        assert_eq!(outcome.stdout, "", "{args:?}");
        run("", &[args, &["--json"]].concat()).is(78, &["no servers"]);
    }
}
