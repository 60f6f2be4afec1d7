//! Exit codes, and what the command sees.

use std::{io::Write, net::TcpListener};

use crate::{
    fixture::Fixture,
    support::{RedisServer, eventually},
};

#[test]
fn code_of_the_command_is_passed_on() {
    let fixture = Fixture::new();
    for code in [0, 1, 3, 255] {
        fixture.script(&[], &format!("exit {code}")).ends(code, "");
    }
    assert_eq!(fixture.held_on("a"), 0);
}

#[test]
fn signal_of_command_is_added() {
    let fixture = Fixture::new();
    fixture.script(&[], "kill -KILL $$").ends(128 + 9, "");
    fixture.script(&[], "kill -TERM $$").ends(128 + 15, "");
}

#[test]
fn missing_command_is_127() {
    let fixture = Fixture::new();
    fixture.start(&["a", "--", "no-such-command"]).ends(127, "no-such-command: ");
    fixture.start(&["a", "--", "/"]).ends(126, "/: ");
    assert_eq!(fixture.held_on("a"), 0);
}

#[test]
fn held_lock_is_75() {
    let fixture = Fixture::new();
    let holder = fixture.script(&["--owner", "the holder"], "echo > begun; sleep 60");
    fixture.line_of("begun");
    fixture.script(&["-n"], "echo > second").ends(75, "held by the holder");
    fixture.script(&["-w", "50ms"], "echo > second").ends(75, "gave up after waiting");
    fixture.script(&["-n", "-E", "7"], "echo > second").ends(7, "held by the holder");
    assert_eq!(fixture.read("second"), "");
    holder.terminate();
}

#[test]
fn servers_that_are_down_are_69() {
    let mut fixture = Fixture::new();
    fixture.servers.iter_mut().skip(1).for_each(RedisServer::kill);
    fixture.script(&["-n"], "echo > ran").ends(69, "sh was not run: ");
    assert_eq!(fixture.read("ran"), "");
}

#[test]
fn wrong_usage_is_64() {
    let mut fixture = Fixture::new();
    let cases: [(&[&str], &str); 27] = [
        (&["--", "true"], "required arguments"),
        (&["a"], "required arguments"),
        (&["a", "--once", "b", "--", "true"], "cannot be used with"),
        (&["a", "-n", "-w", "1s", "--", "true"], "cannot be used with"),
        (&["a", "--stop-signal", "STOP", "--", "true"], "STOP"),
        (&["--tick", "job", "--", "true"], "required arguments"),
        (&["a", "--wait", "soon", "--", "true"], "soon"),
        (&["", "--", "true"], ""),
        (&["a", "--max-hold", "90ms", "--", "true"], "killed 100 ms before"),
        (&["--tick", "j", "--cron", "0 0 31 2 *", "--tz", "UTC", "--", "true"], "0 0 31 2 *"),
        (&["--tick", "j", "--cron", "hello", "--tz", "UTC", "--", "true"], "hello"),
        (&["--tick", "j", "--cron", "* * * * *", "--tz", "Mars/Olympus", "--", "true"], "Mars/"),
        (&["--slots", "0", "a", "--", "true"], "0 is not in 1..=256"),
        (&["--slots", "257", "a", "--", "true"], "257 is not in 1..=256"),
        (&["--slots", "many", "a", "--", "true"], "invalid value 'many'"),
        (&["--slots", "2", "a", "b", "--", "true"], "--slots takes one name"),
        (&["--slots", "2", "job:a", "--", "true"], "begins with job:"),
        (&["--slots", "2", "--", "true"], "required arguments"),
        (&["--slots", "2", "--once", "k", "--", "true"], "cannot be used with"),
        (&["--slots", "2", "--leader", "l", "--", "true"], "cannot be used with"),
        (&["--slots", "2", "--tick", "j", "--cron", "x", "--", "true"], "cannot be used with"),
        (&["--shared", "a", "b", "--", "true"], "--shared takes one name"),
        (&["--shared", "--", "true"], "required arguments"),
        (&["--shared", "--slots", "2", "a", "--", "true"], "cannot be used with"),
        (&["--shared", "--once", "k", "--", "true"], "cannot be used with"),
        (&["--shared", "--leader", "l", "--", "true"], "cannot be used with"),
        (&["--shared", "job:a", "--", "true"], "begins with job:"),
    ];
    for (args, part) in cases {
        fixture.start(args).ends(64, part);
    }
    // Wrong slots are found before anything is sent.
    fixture.servers.iter_mut().for_each(RedisServer::kill);
    for (args, part) in cases.iter().filter(|(args, _)| args[0] == "--slots") {
        fixture.start(args).ends(64, part);
    }
}

#[test]
fn wrong_settings_are_78() {
    let fixture = Fixture::new();
    fixture.start(&["a", "--ttl", "500ms", "--", "true"]).ends(78, "run needs 1s at least");
    fixture.start(&["a", "--nodes", ",", "--", "true"]).ends(78, "--nodes: it names no server");
    fixture.start(&["a", "--config", "missing.toml", "--", "true"]).ends(78, "missing.toml");
    let mut command = fixture.command(&["a", "--", "true"]);
    command.env_remove("REDLOCK_NODES");
    fixture.start_command(command).ends(78, "no servers: give --nodes");
    for (nodes, part) in
        [("redis://:s3cret-1@127.0.0.1:1,ftp://:s3cret-2@x", "redis"), ("redis://h1,s3cret", "%2C")]
    {
        let mut refused = fixture.start_over(nodes, &["a"]);
        refused.ends(78, part);
        assert!(!refused.output().contains("s3cret"), "{}", refused.output());
    }
}

/// Asserts that a run without a limit of its wait ends: the servers refuse for a reason that does not go by itself.
#[track_caller]
fn never_votes(fixture: &Fixture, nodes: &str, task: &[&str], reason: &str) {
    let mut run = fixture.start_over(nodes, task);
    run.ends(78, reason);
    let output = run.output();
    assert!(output.contains("waiting does not help") && output.contains("(do: "), "{output}");
    assert!(!output.contains("s3"), "{output}");
}

/// Returns the addresses of the servers in the form of a URL.
fn urls_of(fixture: &Fixture, form: &str) -> String {
    let urls =
        fixture.servers.iter().map(|server| form.replace("ADDRESS", &server.addr().to_string()));
    urls.collect::<Vec<_>>().join(",")
}

#[test]
fn servers_that_never_vote_are_78() {
    let fixture = Fixture::new();
    for (form, reason) in [
        ("redis://:s3cret@ADDRESS", "authentication failed"),
        // The comma belongs to the password.
        ("redis://:s3,cret@ADDRESS", "authentication failed"),
        ("redis://ADDRESS/99", "no database of the URL's number"),
    ] {
        never_votes(&fixture, &urls_of(&fixture, form), &["a"], reason);
    }
}

/// What a server in protected mode sends to each client on another machine, and closes the connection.
const PROTECTED: &[u8] = b"-DENIED Redis is running in protected mode because protected mode is enabled and no \
password is set for the default user. In this mode connections are only accepted from the loopback interface.\r\n";

#[test]
fn servers_in_protected_mode_are_78() {
    let fixture = Fixture::new();
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
    never_votes(&fixture, &urls, &["a"], "protected mode");
    never_votes(&fixture, &urls, &["a"], "(do: set a password on the server");
}

/// They answer all checks, and refuse each vote.
#[test]
fn servers_that_refuse_votes_are_78() {
    let fixture = Fixture::new();
    let user = ["ACL", "SETUSER", "app", "on", ">s3cret", "~*", "&*", "+@all"];
    for denied in ["-evalsha", "-set"] {
        for server in &fixture.servers {
            server.cli(&[&user[..], &[denied]].concat());
        }
        let urls = urls_of(&fixture, "redis://app:s3cret@ADDRESS");
        for task in [&["a"][..], &["--once", "k"], &["--leader", "l"]] {
            never_votes(&fixture, &urls, task, "permission denied");
        }
    }
}

/// They refuse votes, and answer which locks they keep.
#[test]
fn full_servers_are_waited_for() {
    let fixture = Fixture::new();
    fixture.script(&[], "true").ends(0, "");
    let set =
        |limit| fixture.servers.iter().for_each(|server| server.set_config("maxmemory", limit));
    set("1");
    fixture.script(&["-w", "3s"], "true").ends(69, "memory");
    let mut run = fixture.script(&[], "echo ran");
    eventually("it says what it waits for", || {
        let output = run.output();
        output.contains("redlock: waiting for servers: only 0 of 3") && output.contains("memory")
    });
    set("0");
    run.ends(0, "ran");
}

#[test]
fn environment_has_mode_and_slot_of_own_lock_only() {
    let fixture = Fixture::new();
    let script = "echo $REDLOCK_NAME:$REDLOCK_MODE:$REDLOCK_SLOT:${REDLOCK_TOKEN:+token}";
    for (options, shown) in [
        (&[][..], "a:::token\n"),
        (&["--shared"], "a:shared::token\n"),
        (&["--slots", "1"], "a::0:token\n"),
    ] {
        fixture.script(options, script).ends(0, shown);
    }
}

#[test]
fn environment_names_lock() {
    let fixture = Fixture::new();
    let script = "echo $REDLOCK_NAME:$REDLOCK_OWNER; echo $REDLOCK_TOKEN >> tokens";
    fixture.script(&["--owner", "me"], script).ends(0, "a:me\n");
    fixture.start(&["b", "a", "--", "sh", "-c", script]).ends(0, "a b:redlock@");
    let tokens: Vec<u64> =
        fixture.read("tokens").lines().map(|line| line.parse().unwrap()).collect();
    assert!(tokens.len() == 2 && tokens[0] < tokens[1], "{tokens:?}");
}

#[test]
fn all_names_are_held() {
    let fixture = Fixture::new();
    let run = fixture.start(&["a", "b", "--", "sh", "-c", "echo > begun; sleep 60"]);
    fixture.line_of("begun");
    eventually("both are held everywhere", || {
        ["a", "b"].iter().all(|name| fixture.held_on(name) == 3)
    });
    run.terminate();
    assert_eq!(fixture.held_on("a") + fixture.held_on("b"), 0);
}

#[test]
fn arguments_reach_command_unchanged() {
    let fixture = Fixture::new();
    let args = ["a", "--", "printf", "%s|", "-n", "--wait", "$HOME", "a b", ""];
    fixture.start(&args).ends(0, "-n|--wait|$HOME|a b||");
}
