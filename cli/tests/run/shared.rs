//! `--shared`: any number of readers, or one exclusive run.

use std::fs;

use rustix::process::Signal;

use crate::{
    fixture::{Fixture, Running, nested},
    support::eventually,
};

/// Writes its mode to a file named after the owner, and stays.
const STAY: &str = "echo $REDLOCK_MODE > $REDLOCK_OWNER; exec sleep 60";

/// Starts a reader, and waits until its command runs.
fn reader(fixture: &Fixture, owner: &str) -> Running {
    let reader = fixture.script(&["--shared", "--owner", owner], STAY);
    assert_eq!(fixture.line_of(owner), "shared");
    reader
}

#[test]
fn readers_run_side_by_side() {
    let fixture = Fixture::new();
    let (first, second) = (reader(&fixture, "first"), reader(&fixture, "second"));

    let mut refused = fixture.script(&["-n"], "echo > ran");
    refused.ends(75, "sh was not run: 2 readers hold it, one of them ");
    fixture.script(&["-n", "-E", "7"], "echo > ran").ends(7, "2 readers hold it");
    fixture.script(&["-w", "50ms"], "echo > ran").ends(75, "gave up after waiting");

    assert_eq!(fixture.read("ran"), "");
    first.terminate();
    second.terminate();
    eventually("the mark of the last attempt ends", || fixture.held_on("a") == 0);
}

#[test]
fn exclusive_run_waits_for_readers_and_later_readers_for_it() {
    let fixture = Fixture::new();
    let (first, second) = (reader(&fixture, "first"), reader(&fixture, "second"));
    let script = "echo > writes; until test -e go; do sleep 0.02; done";
    let mut writer = fixture.script(&["--owner", "writer"], script);
    writer.wait_says("redlock: waiting for a, held by 2 readers: ");
    let mut late = fixture.script(&["--shared", "--owner", "late"], "echo read");
    late.wait_says("and next by an exclusive request");

    first.terminate();
    assert_eq!(fixture.read("writes"), "");
    second.terminate();
    fixture.line_of("writes");
    fixture.script(&["--shared", "-n"], "true").ends(75, "held by writer");
    assert!(!late.output().contains("read\n"), "{}", late.output());
    fs::write(fixture.file("go"), "").unwrap();

    writer.ends(0, "");
    late.ends(0, "read\n");
}

#[test]
fn break_ends_all_readers() {
    let fixture = Fixture::with_ttl("3s");
    let (mut first, mut second) = (reader(&fixture, "first"), reader(&fixture, "second"));
    let mut writer = fixture.script(&[], "echo > writes; until test -e go; do sleep 0.02; done");
    writer.wait_says("redlock: waiting for a, held by 2 readers: ");
    fixture.start_command(fixture.redlock(&["ls"])).ends(0, "2 readers: ");
    let mut listed = fixture.start_command(fixture.redlock(&["inspect", "a"]));
    listed.ends(0, "\"a\" is held by 2 readers: ");
    for owner in ["first", "second"] {
        assert!(listed.output().contains(&format!("  {owner} since ")), "{}", listed.output());
    }

    // A renewal that comes before the writer would take the lock back.
    for reader in [&first, &second] {
        reader.signal(Signal::STOP);
    }
    fixture
        .start_command(fixture.redlock(&["break", "a", "--yes"]))
        .ends(0, "deleted on a quorum of nodes");

    fixture.line_of("writes");
    for run in [&mut first, &mut second] {
        run.signal(Signal::CONT);
    }
    for run in [&mut first, &mut second] {
        run.ends(70, "the lock was lost");
    }
    fs::write(fixture.file("go"), "").unwrap();
    writer.ends(0, "");
    assert_eq!(fixture.held_on("a"), 0);
}

/// The exclusive request waits for the outer reader, and the inner one would wait for both.
#[test]
fn reader_under_a_reader_does_not_wait() {
    let fixture = Fixture::new();
    let refused = nested("--shared", "echo > ran");
    let passed = nested("--shared --pass-through", "echo passed");
    let script = format!(
        "echo > first; until test -e go; do sleep 0.02; done; {refused}; echo code $?; {passed}"
    );
    let mut outer = fixture.script(&["--shared"], &script);
    fixture.line_of("first");
    // The mark of an exclusive request.
    for server in &fixture.servers {
        let mark = format!("{:032} 0 0 writer", 7);
        server.cli(&["ZADD", "redlock:lock:a", "-1", &mark]);
    }
    fs::write(fixture.file("go"), "").unwrap();

    outer.ends(0, "passed\n");

    let output = outer.output();
    let reason = "sh was not run: an exclusive request comes first: 1 reader holds it, ";
    assert!(output.contains(reason) && output.contains("code 75\n"), "{output}");
    assert!(output.contains("it waits for the redlock run above, process "), "{output}");
    assert_eq!(fixture.read("ran"), "");
}
