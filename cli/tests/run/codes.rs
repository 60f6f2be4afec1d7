//! Exit codes, and what the command sees.

use std::{io::Write, net::TcpListener};

use rustix::process::Signal;

use crate::{
    program::Site,
    support::{RedisServer, eventually},
};

#[test]
fn code_is_that_of_command() {
    let site = Site::new();
    for code in [0, 1, 3, 255] {
        site.script(&[], &format!("exit {code}")).ends(code, "");
    }
    assert_eq!(site.held_on("a"), 0);
}

#[test]
fn signal_of_command_is_added() {
    let site = Site::new();
    site.script(&[], "kill -KILL $$").ends(128 + 9, "");
    site.script(&[], "kill -TERM $$").ends(128 + 15, "");
}

#[test]
fn missing_command_is_127() {
    let site = Site::new();
    site.start(&["a", "--", "no-such-command"]).ends(127, "no-such-command: ");
    site.start(&["a", "--", "/"]).ends(126, "/: ");
    assert_eq!(site.held_on("a"), 0);
}

#[test]
fn held_lock_is_75() {
    let site = Site::new();
    let mut holder = site.script(&["--owner", "the holder"], "echo > begun; sleep 60");
    site.line_of("begun");
    site.script(&["-n"], "echo > second").ends(75, "held by the holder");
    site.script(&["-w", "50ms"], "echo > second").ends(75, "gave up after waiting");
    site.script(&["-n", "-E", "7"], "echo > second").ends(7, "held by the holder");
    assert_eq!(site.read("second"), "");
    holder.signal(Signal::TERM);
    assert_eq!(holder.code(), 128 + 15);
}

#[test]
fn servers_that_are_down_are_69() {
    let mut site = Site::new();
    site.servers.iter_mut().skip(1).for_each(RedisServer::kill);
    site.script(&["-n"], "echo > ran").ends(69, "sh was not run: ");
    assert_eq!(site.read("ran"), "");
}

#[test]
fn wrong_usage_is_64() {
    let site = Site::new();
    for args in [
        &["--", "true"][..],
        &["a"],
        &["a", "--once", "b", "--", "true"],
        &["a", "-n", "-w", "1s", "--", "true"],
        &["a", "--stop-signal", "STOP", "--", "true"],
        &["--tick", "job", "--", "true"],
        &["a", "--wait", "soon", "--", "true"],
        &["", "--", "true"],
    ] {
        site.start(args).ends(64, "");
    }
}

#[test]
fn wrong_settings_are_78() {
    let site = Site::new();
    site.start(&["a", "--ttl", "500ms", "--", "true"]).ends(78, "run needs 1s at least");
    site.start(&["a", "--nodes", ",", "--", "true"]).ends(78, "--nodes: it names no server");
    site.start(&["a", "--config", "missing.toml", "--", "true"]).ends(78, "missing.toml");
    let mut command = site.command(&["a", "--", "true"]);
    command.env_remove("REDLOCK_NODES");
    site.start_command(command).ends(78, "no servers: give --nodes");
    let mut command = site.command(&["a", "--", "true"]);
    command.env("REDLOCK_NODES", "redis://:s3cret-1@127.0.0.1:1,ftp://:s3cret-2@x");
    let mut refused = site.start_command(command);
    refused.ends(78, "redis");
    assert!(!refused.output().contains("s3cret"), "{}", refused.output());
}

/// The wait has no limit, and ends as waiting does not help.
#[test]
fn servers_that_never_vote_are_78() {
    let site = Site::new();
    let addresses: Vec<_> = site.servers.iter().map(|server| server.addr().to_string()).collect();
    let urls = |url: &str| {
        let of = |address: &String| url.replace("ADDRESS", address);
        addresses.iter().map(of).collect::<Vec<_>>().join(",")
    };
    for (url, part) in [
        ("redis://:s3cret@ADDRESS", "authentication failed"),
        // Commas belong to it.
        ("redis://:s3,cret@ADDRESS", "authentication failed"),
        ("redis://ADDRESS/99", "no database of the URL's number"),
    ] {
        let mut command = site.command(&["a", "--", "true"]);
        command.env("REDLOCK_NODES", urls(url));
        let mut run = site.start_command(command);
        run.ends(78, part);
        let output = run.output();
        assert!(output.contains("waiting does not help") && output.contains("(do: "), "{output}");
        assert!(!output.contains("s3"), "{output}");
    }
    let mut command = site.command(&["a", "--", "true"]);
    command.env("REDLOCK_NODES", "redis://h1,s3cret");
    let mut run = site.start_command(command);
    run.ends(78, "%2C");
    assert!(!run.output().contains("s3cret"), "{}", run.output());
}

/// What a server in protected mode sends to each client on another machine, and closes the connection.
const PROTECTED: &[u8] = b"-DENIED Redis is running in protected mode because protected mode is enabled and no \
password is set for the default user. In this mode connections are only accepted from the loopback interface.\r\n";

/// The wait has no limit, and ends as waiting does not help.
#[test]
fn servers_in_protected_mode_are_78() {
    let site = Site::new();
    let servers: Vec<_> = (0..3).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let urls = servers.iter().map(|it| format!("redis://{}", it.local_addr().unwrap()));
    let urls = urls.collect::<Vec<_>>().join(",");
    for server in servers {
        // Ends with the process of the tests.
        std::thread::spawn(move || {
            for mut client in server.incoming().flatten() {
                let _ = client.write_all(PROTECTED);
            }
        });
    }
    let mut command = site.command(&["a", "--", "true"]);
    command.env("REDLOCK_NODES", urls);

    let mut run = site.start_command(command);

    run.ends(78, "protected mode");
    let output = run.output();
    assert!(output.contains("waiting does not help"), "{output}");
    assert!(output.contains("(do: set a password on the server"), "{output}");
}

/// They answer all checks, and refuse each vote.
#[test]
fn servers_that_refuse_votes_are_78() {
    let site = Site::new();
    let user = ["ACL", "SETUSER", "app", "on", ">s3cret", "~*", "&*", "+@all"];
    for denied in ["-evalsha", "-set"] {
        for server in &site.servers {
            server.cli(&[&user[..], &[denied]].concat());
        }
        let urls =
            site.servers.iter().map(|server| format!("redis://app:s3cret@{}", server.addr()));
        let urls = urls.collect::<Vec<_>>().join(",");
        for task in [&["a"][..], &["--once", "k"], &["--leader", "l"]] {
            let mut command = site.command(&[task, &["--", "true"]].concat());
            command.env("REDLOCK_NODES", &urls);
            let mut run = site.start_command(command);
            run.ends(78, "permission denied");
            let output = run.output();
            assert!(
                output.contains("waiting does not help") && output.contains("(do: "),
                "{output}"
            );
        }
    }
}

/// They refuse votes, and answer which locks they keep.
#[test]
fn full_servers_are_waited_for() {
    let site = Site::new();
    site.script(&[], "true").ends(0, "");
    let set = |limit| site.servers.iter().for_each(|server| server.set_config("maxmemory", limit));
    set("1");
    let mut run = site.script(&[], "echo ran");
    eventually("it says what it waits for", || {
        let output = run.output();
        output.contains("redlock: waiting for servers: only 0 of 3") && output.contains("memory")
    });
    set("0");
    run.ends(0, "ran");
}

/// They vote again once they have replicas.
#[test]
fn servers_without_replicas_are_waited_for() {
    let site = Site::new();
    let set = |replicas| {
        for server in &site.servers {
            server.set_config("min-replicas-to-write", replicas);
        }
    };
    set("1");
    site.script(&["-w", "3s"], "true").ends(69, "NOREPLICAS");
    let mut run = site.script(&[], "echo ran");
    eventually("it waits", || run.output().contains("NOREPLICAS"));
    set("0");
    run.ends(0, "ran");
}

#[test]
fn environment_names_lock() {
    let site = Site::new();
    let script = "echo $REDLOCK_NAME:$REDLOCK_OWNER; echo $REDLOCK_TOKEN >> tokens";
    site.script(&["--owner", "me"], script).ends(0, "a:me\n");
    site.start(&["b", "a", "--", "sh", "-c", script]).ends(0, "a b:redlock@");
    let tokens: Vec<u64> = site.read("tokens").lines().map(|line| line.parse().unwrap()).collect();
    assert!(tokens.len() == 2 && tokens[0] < tokens[1], "{tokens:?}");
}

#[test]
fn all_names_are_held() {
    let site = Site::new();
    let mut run = site.start(&["a", "b", "--", "sh", "-c", "echo > begun; sleep 60"]);
    site.line_of("begun");
    eventually("both are held everywhere", || {
        ["a", "b"].iter().all(|name| site.held_on(name) == 3)
    });
    run.signal(Signal::TERM);
    assert_eq!(run.code(), 128 + 15);
    assert_eq!(site.held_on("a") + site.held_on("b"), 0);
}

#[test]
fn arguments_reach_command_unchanged() {
    let site = Site::new();
    let args = ["a", "--", "printf", "%s|", "-n", "--wait", "$HOME", "a b", ""];
    site.start(&args).ends(0, "-n|--wait|$HOME|a b||");
}
