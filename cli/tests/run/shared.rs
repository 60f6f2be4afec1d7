//! `--shared`: any number of readers, or one exclusive run.

use std::fs;

use rustix::process::Signal;

use crate::{
    program::{Running, Site},
    support::eventually,
};

const REDLOCK: &str = env!("CARGO_BIN_EXE_redlock");
/// Writes its mode to a file named after the owner, and stays.
const STAY: &str = "echo $REDLOCK_MODE > $REDLOCK_OWNER; exec sleep 60";

/// Starts a reader, and waits until its command runs.
fn reader(site: &Site, owner: &str) -> Running {
    let reader = site.script(&["--shared", "--owner", owner], STAY);
    assert_eq!(site.line_of(owner), "shared");
    reader
}

fn end(mut run: Running) {
    run.signal(Signal::TERM);
    assert_eq!(run.code(), 128 + 15);
}

#[track_caller]
fn says(run: &Running, part: &str) {
    eventually(part, || run.output().contains(part));
}

#[test]
fn readers_run_side_by_side() {
    let site = Site::new();
    let (first, second) = (reader(&site, "first"), reader(&site, "second"));

    let mut refused = site.script(&["-n"], "echo > ran");
    refused.ends(75, "sh was not run: 2 readers hold it, one of them ");
    site.script(&["-n", "-E", "7"], "echo > ran").ends(7, "2 readers hold it");
    site.script(&["-w", "50ms"], "echo > ran").ends(75, "gave up after waiting");

    assert_eq!(site.read("ran"), "");
    end(first);
    end(second);
    eventually("the mark of the last attempt ends", || site.held_on("a") == 0);
}

#[test]
fn exclusive_run_waits_for_readers_and_later_readers_for_it() {
    let site = Site::new();
    let (first, second) = (reader(&site, "first"), reader(&site, "second"));
    let script = "echo > writes; until test -e go; do sleep 0.02; done";
    let mut writer = site.script(&["--owner", "writer"], script);
    says(&writer, "redlock: waiting for a, held by 2 readers: ");
    let mut late = site.script(&["--shared", "--owner", "late"], "echo read");
    says(&late, "and next by an exclusive request");

    end(first);
    assert_eq!(site.read("writes"), "");
    end(second);
    site.line_of("writes");
    site.script(&["--shared", "-n"], "true").ends(75, "held by writer");
    assert!(!late.output().contains("read\n"), "{}", late.output());
    fs::write(site.file("go"), "").unwrap();

    writer.ends(0, "");
    late.ends(0, "read\n");
}

#[test]
fn break_ends_all_readers() {
    let site = Site::with_ttl("3s");
    let (mut first, mut second) = (reader(&site, "first"), reader(&site, "second"));
    let mut writer = site.script(&[], "echo > writes; until test -e go; do sleep 0.02; done");
    says(&writer, "redlock: waiting for a, held by 2 readers: ");
    site.start_command(site.redlock(&["ls"])).ends(0, "2 readers: ");
    let mut listed = site.start_command(site.redlock(&["inspect", "a"]));
    listed.ends(0, "\"a\" is held by 2 readers: ");
    for owner in ["first", "second"] {
        assert!(listed.output().contains(&format!("  {owner} since ")), "{}", listed.output());
    }

    // A renewal that comes before the writer would take the lock back.
    for reader in [&first, &second] {
        reader.signal(Signal::STOP);
    }
    site.start_command(site.redlock(&["break", "a", "--yes"]))
        .ends(0, "deleted on a quorum of nodes");

    site.line_of("writes");
    for run in [&mut first, &mut second] {
        run.signal(Signal::CONT);
    }
    for run in [&mut first, &mut second] {
        run.ends(70, "the lock was lost");
    }
    fs::write(site.file("go"), "").unwrap();
    writer.ends(0, "");
    assert_eq!(site.held_on("a"), 0);
}

#[test]
fn environment_has_the_mode_of_own_lock_only() {
    let site = Site::new();
    let script = "echo $REDLOCK_NAME:$REDLOCK_MODE:${REDLOCK_TOKEN:+token}";
    site.script(&["--shared"], script).ends(0, "a:shared:token\n");
    site.script(&[], script).ends(0, "a::token\n");
    let inner = format!("echo outer: $REDLOCK_MODE; {REDLOCK} run b -- sh -c '{script}'");
    site.script(&["--shared"], &inner).ends(0, "outer: shared\nb::token\n");
}

#[test]
fn wrong_shared_runs_are_64() {
    let site = Site::new();
    let tick = ["--tick", "j", "--cron", "* * * * *"];
    for (args, part) in [
        (&["--shared", "a", "b"][..], "--shared takes one name"),
        (&["--shared"], "required arguments"),
        (&["--shared", "--slots", "2", "a"], "cannot be used with"),
        (&["--shared", "--once", "k"], "cannot be used with"),
        (&["--shared", "--leader", "l"], "cannot be used with"),
        (&[&["--shared"], &tick[..]].concat(), "cannot be used with"),
        (&["--shared", "job:a"], "begins with job:"),
    ] {
        site.start(&[args, &["--", "true"]].concat()).ends(64, part);
    }
}

mod nested {
    use super::*;

    /// Returns a script that runs a script under the lock `a`.
    fn inner(options: &str, script: &str) -> String {
        format!("{REDLOCK} run {options} a -- sh -c '{script}'")
    }

    #[test]
    fn reader_under_a_reader_shares() {
        let site = Site::new();
        let script = "echo inner $REDLOCK_MODE; exit 7";
        site.script(&["--shared"], &inner("--shared", script)).ends(7, "inner shared\n");
    }

    #[test]
    fn exclusive_run_under_a_reader_fails_at_once() {
        let site = Site::new();
        for options in ["", "--pass-through"] {
            let mut run = site.script(&["--shared"], &inner(options, "echo ran"));
            run.ends(64, "redlock run above it, process ");
            assert!(!run.output().contains("ran\n"), "{}", run.output());
        }
    }

    #[test]
    fn reader_under_an_exclusive_run_fails_or_passes_through() {
        let site = Site::new();
        let mut run = site.script(&[], &inner("--shared", "true"));
        run.ends(64, "is held by the redlock run above it, process ");
        assert!(run.output().contains("--pass-through"), "{}", run.output());
        site.script(&[], &inner("--shared --pass-through", "echo ran")).ends(0, "ran\n");
    }

    /// The exclusive request waits for the outer reader, and the inner one would wait for both.
    #[test]
    fn reader_under_a_reader_does_not_wait() {
        let site = Site::new();
        let refused = inner("--shared", "echo > ran");
        let passed = inner("--shared --pass-through", "echo passed");
        let script = format!(
            "echo > first; until test -e go; do sleep 0.02; done; {refused}; echo code $?; {passed}"
        );
        let mut outer = site.script(&["--shared"], &script);
        site.line_of("first");
        // The mark of an exclusive request.
        for server in &site.servers {
            let mark = format!("{:032} 0 0 writer", 7);
            server.cli(&["ZADD", "redlock:lock:a", "-1", &mark]);
        }
        fs::write(site.file("go"), "").unwrap();

        outer.ends(0, "passed\n");

        let output = outer.output();
        let reason = "sh was not run: an exclusive request comes first: 1 reader holds it, ";
        assert!(output.contains(reason) && output.contains("code 75\n"), "{output}");
        assert!(output.contains("it waits for the redlock run above, process "), "{output}");
        assert_eq!(site.read("ran"), "");
    }
}
