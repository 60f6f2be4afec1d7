//! Signals to `redlock run`.

use std::time::Instant;

use rustix::process::Signal;

use crate::{
    fixture::{Fixture, is_alive, is_gone},
    support::eventually,
};

/// Writes its process id, and what signal it got; ends with 7.
const TRAPS: &str = "for s in HUP INT QUIT TERM USR1 USR2; do trap \"echo $s > got; exit 7\" $s; done; \
                     echo $$ > begun; while :; do sleep 0.01; done";

#[test]
fn signals_reach_command() {
    let fixture = Fixture::new();
    for (name, signal) in [
        ("HUP", Signal::HUP),
        ("INT", Signal::INT),
        ("QUIT", Signal::QUIT),
        ("TERM", Signal::TERM),
        ("USR1", Signal::USR1),
        ("USR2", Signal::USR2),
    ] {
        let _ = std::fs::remove_file(fixture.file("begun"));
        let mut run = fixture.script(&[], TRAPS);
        let command = fixture.line_of("begun");
        run.signal(signal);
        assert_eq!((run.code(), fixture.line_of("got").as_str()), (7, name));
        assert!(!is_alive(&command));
        assert_eq!(fixture.held_on("a"), 0);
    }
}

#[test]
fn signal_ends_wait() {
    let fixture = Fixture::new();
    let _holder = fixture.script(&[], "echo > begun; sleep 60");
    fixture.line_of("begun");
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let mut waiter = fixture.script(&["-vv"], "echo > second");
        eventually("it waits", || waiter.output().contains("held"));
        waiter.signal(signal);
        assert_eq!(waiter.code(), code);
    }
    assert_eq!(fixture.read("second"), "");
}

/// Wherever it comes, a signal is handled: nothing is started after it, and nothing is left.
#[test]
fn no_moment_ignores_signals() {
    let fixture = Fixture::new();
    let started = Instant::now();
    let mut first = fixture.script(&[], "echo > first; sleep 60");
    fixture.line_of("first");
    // Signals are sent from the start of the program up to twice the time until its command begins.
    let step = started.elapsed() / 30;
    first.signal(Signal::TERM);
    first.wait();
    let mut begun = 0;
    for round in 0..60 {
        let name = format!("begun-{round}");
        let mut run = fixture.script(&[], &format!("echo $$ > {name}; sleep 60"));
        std::thread::sleep(step * round);
        run.signal(Signal::TERM);
        let status = run.wait();
        // Before the program has its handlers, the signal ends it.
        let code = status.code().or_else(|| {
            use std::os::unix::process::ExitStatusExt;
            status.signal().map(|signal| 128 + signal)
        });
        assert_eq!(code, Some(143), "{}", run.output());
        if let Some(pid) = fixture.read(&name).lines().next() {
            is_gone(pid);
            begun += 1;
        }
        eventually("the lock is released", || fixture.held_on("a") == 0);
    }
    assert!((1..60).contains(&begun), "{begun} of 60 began: the signals came at one moment");
}

#[test]
fn suspended_command_is_stopped() {
    let fixture = Fixture::with_ttl("1s");
    let mut run = fixture.script(&["--max-hold", "2s"], "echo $$ > begun; kill -STOP $$; exit 0");
    let command = fixture.line_of("begun");
    run.ends(70, "the lock was lost");
    assert!(!is_alive(&command));
}
