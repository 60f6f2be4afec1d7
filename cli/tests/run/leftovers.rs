//! What a command leaves running, and what is left when `redlock` is killed or suspended.

use rustix::process::Signal;

use crate::{
    program::{Site, is_alive, is_gone},
    support::eventually,
};

/// A command with a child and, on Linux, with one that left the process group.
const FAMILY: &str =
    "sleep 61 & echo $! > child; setsid sleep 62 & echo $! > daemon; echo $$ > begun";

fn family(site: &Site) -> [String; 3] {
    ["begun", "child", "daemon"].map(|name| site.line_of(name))
}

#[test]
fn background_processes_end_with_command() {
    let site = Site::new();
    site.script(&[], FAMILY).ends(0, "");
    for pid in family(&site) {
        assert!(!is_alive(&pid), "{pid} outlived the lock");
    }
    assert_eq!(site.held_on("a"), 0);
}

#[test]
fn daemons_run_on_where_asked() {
    let site = Site::new();
    site.script(&["--leave-daemons"], FAMILY).ends(0, "");
    assert_eq!(site.held_on("a"), 0);
    for pid in &family(&site)[1..] {
        assert!(is_alive(pid), "{pid} was killed");
        let pid = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
        rustix::process::kill_process(pid, Signal::KILL).unwrap();
    }
    // A command that is killed leaves nothing.
    let mut run = site.script(&["--leave-daemons"], "sleep 63 & echo $! > late; wait");
    let late = site.line_of("late");
    run.signal(Signal::KILL);
    run.wait();
    is_gone(&late);
}

#[test]
fn command_ends_with_standard_input() {
    let site = Site::new();
    for (script, code) in [
        ("echo $$ > PID; sleep 60", 143),
        // A process that handles the signal and does not end is killed.
        ("trap '' TERM; echo $$ > PID; while :; do sleep 0.01; done", 137),
    ] {
        let script = script.replace("PID", &format!("pid-{code}"));
        let options = ["a", "--end-with-stdin", "--kill-after", "1s", "--", "sh", "-c", &script];
        let (mut run, stdin) = site.start_with_stdin(&options);
        let pid = site.line_of(&format!("pid-{code}"));
        assert!(is_alive(&pid));
        drop(stdin);
        run.ends(code, "the standard input has ended");
        assert!(!is_alive(&pid) && site.held_on("a") == 0);
    }
}

#[test]
fn stubborn_leftovers_are_killed() {
    let site = Site::new();
    let script = "(trap '' TERM; echo > deaf; while :; do sleep 0.01; done) & echo $! > child; \
                  until [ -e deaf ]; do sleep 0.01; done";
    site.script(&[], script).ends(0, "");
    assert!(!is_alive(&site.line_of("child")));
}

#[test]
fn orphans_end_before_release() {
    let site = Site::new();
    // The parent of the daemon has ended: this program adopts it.
    let script =
        "(setsid sh -c 'echo $$ > daemon; sleep 60' &) ; until [ -s daemon ]; do sleep 0.01; done";
    site.script(&[], script).ends(0, "");
    assert!(!is_alive(&site.line_of("daemon")));
}

#[test]
fn killed_program_takes_command_along() {
    let site = Site::new();
    for _ in 0..10 {
        for name in ["begun", "child"] {
            let _ = std::fs::remove_file(site.file(name));
        }
        let mut run = site.script(&[], "sleep 61 & echo $! > child; echo $$ > begun; wait");
        let [command, child] = ["begun", "child"].map(|name| site.line_of(name));
        run.signal(Signal::KILL);
        run.wait();
        is_gone(&command);
        is_gone(&child);
        // The lock ends by its TTL; here it is taken away.
        site.servers.iter().for_each(|server| drop(server.cli(&["DEL", "redlock:lock:a"])));
    }
}

#[test]
fn suspended_program_takes_command_along() {
    let site = Site::with_ttl("1s");
    let mut run = site.script(&[], "sleep 61 & echo $! > child; echo $$ > begun; wait");
    let [command, child] = ["begun", "child"].map(|name| site.line_of(name));
    run.signal(Signal::STOP);
    is_gone(&command);
    is_gone(&child);
    run.signal(Signal::CONT);
    run.ends(70, "the lock was lost");
}

#[test]
fn command_without_watchdog_is_killed() {
    let site = Site::new();
    let mut run = site.script(&[], "echo $$ > begun; sleep 60");
    let command = site.line_of("begun");
    let of = |pid: &str| {
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        children.unwrap_or_default().split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let own = run.pid().as_raw_nonzero().to_string();
    let watchdog = of(&own).into_iter().find(|pid| *pid != command).expect("a watchdog runs");
    let pid = rustix::process::Pid::from_raw(watchdog.parse().unwrap()).unwrap();
    rustix::process::kill_process(pid, Signal::KILL).unwrap();
    run.ends(71, "could not be watched");
    assert!(!is_alive(&command));
    eventually("the lock is released", || site.held_on("a") == 0);
}
