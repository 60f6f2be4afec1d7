//! Commands and surroundings that make it difficult to end in time, or to tell the truth.

use std::{
    fs::{self, File},
    io::Write,
    os::unix::process::CommandExt,
    process::{Command, Stdio},
};

use rustix::{
    io::Errno,
    process::{Pid, Signal, kill_process},
};

use crate::{
    fixture::{Fixture, Running, is_alive, is_gone},
    support::eventually,
};

/// Processes in other groups and sessions, and an orphan; each writes its process id.
const ESCAPED: &str = "timeout 61 sh -c 'echo $$ >> pids; sleep 61' & \
                       setsid sh -c 'echo $$ >> pids; sleep 62' & \
                       (sleep 63 & echo $! >> pids); echo $$ >> pids; wait";

fn pids(fixture: &Fixture, count: usize) -> Vec<String> {
    eventually("all have begun", || fixture.read("pids").lines().count() == count);
    fixture.read("pids").lines().map(str::to_owned).collect()
}

fn watchdog_of(run: &Running) -> Pid {
    let pid = run.pid().as_raw_nonzero();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    Pid::from_raw(children.split_whitespace().next().unwrap().parse().unwrap()).unwrap()
}

/// Starts a shell that becomes `redlock run`, with what is to be done before.
fn exec(fixture: &Fixture, before: &str, args: &[&str]) -> Running {
    let run = fixture.command(args);
    let mut shell = Command::new("env");
    shell.args(["--default-signal", "sh", "-c"]).arg(format!("{before}; exec \"$@\"")).arg("sh");
    // Without what resets the signals.
    shell.args(run.get_args().skip(1)).current_dir(run.get_current_dir().unwrap());
    shell.process_group(0).envs(run.get_envs().filter_map(|(name, value)| Some((name, value?))));
    fixture.start_command(shell)
}

#[test]
fn daemons_end_before_release() {
    let fixture = Fixture::new();
    for _ in 0..40 {
        // Ends while the daemon is still on its way.
        let script = "(setsid sh -c '(sleep 61 & echo $! >> pids) &' &)";
        fixture.script(&[], script).ends(0, "");
        for pid in fixture.read("pids").lines() {
            assert!(!is_alive(pid), "{pid} outlived the lock");
        }
    }
    assert!(fixture.read("pids").lines().count() > 0, "no daemon began");
}

#[test]
fn escaped_processes_end_with_program() {
    for (options, signal) in [
        (&[][..], Signal::KILL),
        (&[], Signal::STOP),
        (&["--foreground"], Signal::KILL),
        (&["--foreground"], Signal::STOP),
    ] {
        let fixture = Fixture::with_ttl("1s");
        let run = fixture.script(options, ESCAPED);
        let pids = pids(&fixture, 4);
        run.signal(signal);
        for pid in pids {
            is_gone(&pid);
        }
    }
}

#[test]
fn escaped_processes_end_with_watchdog() {
    let fixture = Fixture::new();
    let mut run = fixture.script(&[], ESCAPED);
    let pids = pids(&fixture, 4);
    kill_process(watchdog_of(&run), Signal::KILL).unwrap();
    run.ends(71, "could not be watched");
    for pid in pids {
        assert!(!is_alive(&pid), "{pid} outlived the lock");
    }
    eventually("the lock is released", || fixture.held_on("a") == 0);
}

#[test]
fn suspended_watchdog_lets_nothing_escape() {
    for options in [&["--max-hold", "3s"][..], &["--max-hold", "3s", "--foreground"]] {
        let fixture = Fixture::with_ttl("1s");
        let mut run = fixture.script(options, ESCAPED);
        let pids = pids(&fixture, 4);
        kill_process(watchdog_of(&run), Signal::STOP).unwrap();
        run.ends(70, "the lock was lost");
        for pid in pids {
            assert!(!is_alive(&pid), "{pid} outlived the lock");
        }
    }
}

/// The command ends, and then its watchdog, before `run` reads of it.
#[test]
fn success_outlives_the_watchdog() {
    let fixture = Fixture::new();
    let script = "echo > begun; until [ -e end ]; do sleep 0.01; done";
    let mut run = fixture.start(&["--once", "k", "--", "sh", "-c", script]);
    fixture.line_of("begun");
    let watchdog = watchdog_of(&run).as_raw_nonzero().to_string();
    run.signal(Signal::STOP);
    fs::write(fixture.file("end"), "").unwrap();
    is_gone(&watchdog);
    run.signal(Signal::CONT);
    run.ends(0, "");
    fixture.start(&["--once", "k", "-v", "--", "false"]).ends(0, "has done it");
}

#[test]
fn missing_program_takes_no_tick() {
    let fixture = Fixture::new();
    let tick = |program: &str| {
        let at = ["-v", "--tick", "j", "--cron", "* * * * *", "--at", "2025-05-05T00:07:04Z", "--"];
        fixture.start(&[&at[..], &[program]].concat())
    };
    tick("no-such-command").ends(127, "no-such-command: ");
    tick("true").ends(0, "");
    tick("true").ends(0, "has run this tick");
}

/// The lock is another's at once: everything ends before the program does.
#[test]
fn early_loss_leaves_nothing() {
    let fixture = Fixture::with_ttl("3s");
    let script = "setsid sh -c 'while :; do sleep 61 & echo $! >> pids; sleep 0.005; done' & wait";
    let mut run = fixture.script(&["--on-lost", "cat pids > at-loss"], script);
    eventually("some have begun", || fixture.read("pids").lines().count() > 20);
    for server in &fixture.servers {
        server.set("redlock:lock:a", "somebody else's");
    }
    run.ends(70, "the lock was lost");
    let left: Vec<_> =
        fixture.read("pids").lines().filter(|pid| is_alive(pid)).map(str::to_owned).collect();
    assert_eq!(left, [""; 0]);
    assert_eq!(fixture.read("at-loss"), fixture.read("pids"), "the hook came last");
}

/// As systemd stops the processes of a unit.
#[test]
fn signal_to_all_leaves_grace() {
    let fixture = Fixture::new();
    let script =
        "trap 'echo cleaned > done; exit 4' TERM; echo $$ > begun; while :; do sleep 0.01; done";
    let mut run = fixture.script(&[], script);
    let command = Pid::from_raw(fixture.line_of("begun").parse().unwrap()).unwrap();
    for pid in [watchdog_of(&run), run.pid()] {
        kill_process(pid, Signal::TERM).unwrap();
    }
    // The program passes the signal on, so the command may have ended.
    let sent = kill_process(command, Signal::TERM);
    assert!(matches!(sent, Ok(()) | Err(Errno::SRCH)), "{sent:?}");
    assert_eq!((run.code(), fixture.read("done").as_str()), (4, "cleaned\n"));
}

#[test]
fn ignored_signals_stay_ignored() {
    let fixture = Fixture::new();
    let script = "grep SigIgn /proc/$$/status > ignored; echo > begun; sleep 60";
    let mut run = exec(&fixture, "trap '' HUP", &["a", "--", "sh", "-c", script]);
    fixture.line_of("begun");
    let mask = fixture.read("ignored").trim().rsplit('\t').next().unwrap().to_owned();
    assert_eq!(u64::from_str_radix(&mask, 16).unwrap() & 1, 1, "{mask}");
    run.signal(Signal::HUP);
    assert_eq!(fixture.held_on("a"), 3);
    run.signal(Signal::TERM);
    assert_eq!(run.code(), 128 + 15);
}

#[test]
fn ignored_child_signal_hides_no_status() {
    let fixture = Fixture::new();
    exec(&fixture, "trap '' CHLD", &["a", "--", "sh", "-c", "exit 3"]).ends(3, "");
}

#[test]
fn children_of_others_are_left_alone() {
    let fixture = Fixture::new();
    let mut run =
        exec(&fixture, "sleep 61 & echo $! > sidecar", &["a", "--", "sh", "-c", "exit 5"]);
    assert_eq!(run.code(), 5, "{}", run.output());
    let sidecar = fixture.line_of("sidecar");
    assert!(is_alive(&sidecar));
    kill_process(Pid::from_raw(sidecar.parse().unwrap()).unwrap(), Signal::KILL).unwrap();
}

#[test]
fn foreground_command_gets_signals() {
    let fixture = Fixture::new();
    for signal in [Signal::INT, Signal::QUIT, Signal::TERM] {
        let _ = fs::remove_file(fixture.file("begun"));
        let script = "trap 'exit 6' INT QUIT TERM; echo > begun; while :; do sleep 0.01; done";
        let mut run = fixture.script(&["--foreground"], script);
        fixture.line_of("begun");
        run.signal(signal);
        assert_eq!(run.code(), 6);
    }
}

#[test]
fn signal_ends_grace_and_hook() {
    let fixture = Fixture::with_ttl("60s");
    let deaf = "(trap '' TERM; echo > deaf; while :; do sleep 0.01; done) & echo $! > child; until [ -e deaf ]; do sleep 0.01; done; echo > ends";
    let mut run = fixture.script(&[], deaf);
    fixture.line_of("ends");
    run.signal(Signal::TERM);
    let code = run.code();
    // The shell may not have ended yet when the signal comes.
    assert!([0, 128 + 15].contains(&code), "{code}");
    assert!(!is_alive(&fixture.line_of("child")));
    assert_eq!(fixture.held_on("a"), 0);

    let hook = ["--max-hold", "500ms", "--on-lost", "echo > hooked; sleep 600"];
    let mut run = fixture.script(&hook, "sleep 60");
    fixture.line_of("hooked");
    run.signal(Signal::TERM);
    run.ends(70, "the command of --on-lost was not run: ended by");
}

#[test]
fn closed_output_changes_no_code() {
    let fixture = Fixture::new();
    let full = |args: &[&str]| {
        let mut command = fixture.command(args);
        let full = File::options().write(true).open("/dev/full").unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(full);
        command.status().unwrap().code()
    };
    assert_eq!(full(&["--once", "k", "--", "true"]), Some(0));
    assert_eq!(full(&["--once", "k", "--", "true"]), Some(0));
    assert_eq!(full(&["a", "--", "no-such-command"]), Some(127));
    assert_eq!(full(&["a", "--", "/"]), Some(126));
    assert_eq!(
        full(&["a", "--max-hold", "300ms", "--on-lost", "exit 1", "--", "sleep", "60"]),
        Some(70)
    );
}

#[test]
fn unread_log_ends_no_lock() {
    let fixture = Fixture::with_ttl("1s");
    let (reader, mut writer) = std::io::pipe().unwrap();
    // Full, before the program writes its first line.
    rustix::io::ioctl_fionbio(&writer, true).unwrap();
    while writer.write(&[b'x'; 4096]).is_ok() {}
    rustix::io::ioctl_fionbio(&writer, false).unwrap();
    let mut command =
        fixture.command(&["-vv", "a", "--", "sh", "-c", "echo > begun; sleep 4; echo > ended"]);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(writer).spawn().unwrap();
    fixture.line_of("begun");
    fixture.servers[2].freeze();
    fixture.line_of("ended");
    drop(reader);
    assert!(child.wait().unwrap().success());
    fixture.servers[2].thaw();
}

#[test]
fn orphans_are_reaped() {
    let fixture = Fixture::new();
    let script = "for i in 1 2 3 4 5 6 7 8 9 10; do (true &); done; echo > begun; sleep 60";
    let mut run = fixture.script(&[], script);
    fixture.line_of("begun");
    let watchdog = watchdog_of(&run).as_raw_nonzero().to_string();
    let zombies = || {
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let stats = entries.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
        stats.filter(|stat| stat.contains(&format!(") Z {watchdog} "))).count()
    };
    eventually("no zombie is left", || zombies() == 0);
    run.signal(Signal::TERM);
    assert_eq!(run.code(), 128 + 15);
}
