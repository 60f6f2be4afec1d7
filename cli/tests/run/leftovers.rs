//! What a command leaves running, and what is left when `redlock` is killed or suspended.

use rustix::process::Signal;

use crate::fixture::{Fixture, is_alive, is_gone};

/// A command with a child, with one that left the process group, and with a daemon whose parent has ended.
const FAMILY: &str = "sleep 61 & echo $! > child; setsid sleep 62 & echo $! > session; \
    (setsid sh -c 'echo $$ > daemon; sleep 63' &); until [ -s daemon ]; do sleep 0.01; done; echo $$ > begun";

fn family(fixture: &Fixture) -> [String; 4] {
    ["begun", "child", "session", "daemon"].map(|name| fixture.line_of(name))
}

#[test]
fn background_processes_end_with_command() {
    let fixture = Fixture::new();
    fixture.script(&[], FAMILY).ends(0, "");
    for pid in family(&fixture) {
        assert!(!is_alive(&pid), "{pid} outlived the lock");
    }
    assert_eq!(fixture.held_on("a"), 0);
}

#[test]
fn daemons_run_on_where_asked() {
    let fixture = Fixture::new();
    fixture.script(&["--leave-daemons"], FAMILY).ends(0, "");
    assert_eq!(fixture.held_on("a"), 0);
    for pid in &family(&fixture)[1..] {
        assert!(is_alive(pid), "{pid} was killed");
        let pid = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
        rustix::process::kill_process(pid, Signal::KILL).unwrap();
    }
    // A command that is killed leaves nothing.
    let mut run = fixture.script(&["--leave-daemons"], "sleep 63 & echo $! > late; wait");
    let late = fixture.line_of("late");
    run.signal(Signal::KILL);
    run.wait();
    is_gone(&late);
}

#[test]
fn command_ends_with_standard_input() {
    let fixture = Fixture::new();
    for (script, code) in [
        ("echo $$ > PID; sleep 60", 143),
        // A process that handles the signal and does not end is killed.
        ("trap '' TERM; echo $$ > PID; while :; do sleep 0.01; done", 137),
    ] {
        let script = script.replace("PID", &format!("pid-{code}"));
        let options = ["a", "--end-with-stdin", "--kill-after", "1s", "--", "sh", "-c", &script];
        let (mut run, stdin) = fixture.start_with_stdin(&options);
        let pid = fixture.line_of(&format!("pid-{code}"));
        assert!(is_alive(&pid));
        drop(stdin);
        run.ends(code, "the standard input has ended");
        assert!(!is_alive(&pid) && fixture.held_on("a") == 0);
    }
}

#[test]
fn stubborn_leftovers_are_killed() {
    let fixture = Fixture::new();
    let script = "(trap '' TERM; echo > deaf; while :; do sleep 0.01; done) & echo $! > child; \
                  until [ -e deaf ]; do sleep 0.01; done";
    fixture.script(&[], script).ends(0, "");
    assert!(!is_alive(&fixture.line_of("child")));
}

#[test]
fn suspended_program_takes_command_along() {
    let fixture = Fixture::with_ttl("1s");
    let mut run = fixture.script(&[], "sleep 61 & echo $! > child; echo $$ > begun; wait");
    let [command, child] = ["begun", "child"].map(|name| fixture.line_of(name));
    run.signal(Signal::STOP);
    is_gone(&command);
    is_gone(&child);
    run.signal(Signal::CONT);
    run.ends(70, "the lock was lost");
}
