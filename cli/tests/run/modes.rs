//! Work that is done once, and leaders.

use std::{
    fs,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use crate::{
    fixture::{Fixture, Running},
    support::{RedisServer, eventually},
};

#[test]
fn success_is_not_repeated() {
    let fixture = Fixture::new();
    let once = |script: &str| fixture.start(&["--once", "job 17", "--", "sh", "-c", script]);
    once("echo ran >> log; exit 3").ends(3, "");
    once("echo ran >> log").ends(0, "");
    once("echo ran >> log").ends(0, "");
    assert_eq!(fixture.read("log"), "ran\nran\n");
}

/// All servers hang for 1.5 s, which is longer than ten node timeouts, when the command ends.
#[test]
fn record_is_stored_after_a_hang() {
    let fixture = Fixture::new();
    fs::write(fixture.file("quick.toml"), "ttl = '60s'\nrestart_guard = 'off'\n").unwrap();
    let once = |script: &str| {
        let mut command = fixture.command(&["--once", "k", "-v", "--", "sh", "-c", script]);
        command.env("REDLOCK_CONFIG", fixture.file("quick.toml"));
        fixture.start_command(command)
    };
    let mut run = once("echo > begun; until [ -e end ]; do sleep 0.01; done; echo > ended");
    fixture.line_of("begun");

    fixture.servers.iter().for_each(RedisServer::freeze);
    fs::write(fixture.file("end"), "").unwrap();
    fixture.line_of("ended");
    std::thread::sleep(Duration::from_millis(1_500));
    fixture.servers.iter().for_each(RedisServer::thaw);

    run.ends(0, "");
    once("echo > again").ends(0, "has done it");
    assert_eq!(fixture.read("again"), "");
}

#[test]
fn work_in_progress_is_75() {
    let fixture = Fixture::new();
    let mut first = fixture.start(&["--once", "k", "--", "sh", "-c", "echo $$ > begun; sleep 60"]);
    fixture.line_of("begun");
    fixture.start(&["--once", "k", "-n", "--", "true"]).ends(75, "does it now");
    first.signal(rustix::process::Signal::TERM);
    assert_eq!(first.code(), 143);
    fixture.start(&["--once", "k", "--", "true"]).ends(0, "");
}

/// Starts `redlock run --tick` for a minute of a day in the past. All scripts are versions of one job.
fn tick(fixture: &Fixture, minute: usize, script: &str, more: &[&str]) -> Running {
    let at = format!("2025-05-05T{:02}:{:02}:04Z", minute / 60, minute % 60);
    let mut args = vec!["--tick", "report", "--cron", "* * * * *", "--at", &at];
    args.extend(["--tz", "UTC", "--work-id", "the report"]);
    args.extend_from_slice(more);
    args.extend(["--", "sh", "-c", script]);
    fixture.start(&args)
}

/// Two hosts with the same crontab.
#[test]
fn each_tick_runs_once() {
    const TICKS: usize = 100;

    let fixture = Fixture::new();
    let script = "echo $REDLOCK_TICK $REDLOCK_ATTEMPT $REDLOCK_OWNER >> ledger";
    for minute in 0..TICKS {
        let mut hosts =
            ["one", "two"].map(|host| tick(&fixture, minute, script, &["--owner", host]));
        for host in &mut hosts {
            assert_eq!(host.code(), 0, "{}", host.output());
        }
    }
    let ledger = fixture.read("ledger");
    let ticks: Vec<_> = ledger.lines().map(|line| line.split_once(" 1 ").unwrap().0).collect();
    let expected: Vec<_> =
        (0..TICKS).map(|at| format!("2025-05-05T{:02}:{:02}:00Z", at / 60, at % 60)).collect();
    assert_eq!(ticks, expected);
    let of_one = ledger.lines().filter(|line| line.ends_with(" one")).count();
    println!("{TICKS} ticks, each once: {of_one} by one host, {} by the other", TICKS - of_one);
}

#[test]
fn failed_tick_is_tried_again() {
    let fixture = Fixture::new();
    let script = "echo $REDLOCK_ATTEMPT >> log; exit 3";
    tick(&fixture, 7, script, &["--attempts", "2"]).ends(3, "");
    tick(&fixture, 7, script, &["--attempts", "2"]).ends(3, "");
    tick(&fixture, 7, script, &["--attempts", "2"]).ends(75, "attempts so far: 2");
    tick(&fixture, 6, script, &[]).ends(75, "has begun a later tick, 2025-05-05T00:07:00Z");
    assert_eq!(fixture.read("log"), "1\n2\n");
    tick(&fixture, 8, "exit 0", &[]).ends(0, "");
    tick(&fixture, 8, script, &["-v"]).ends(0, "has run this tick");
}

/// Whatever starts it has a clock that is ahead.
#[test]
fn early_start_waits_for_its_tick() {
    let fixture = Fixture::new();
    let into_ten = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() % 10_000;
    // Half of the time between two ticks is 5 s.
    let into = into_ten();
    if !(6_000..8_000).contains(&into) {
        let wait = u64::try_from((16_000 - into) % 10_000).unwrap();
        std::thread::sleep(Duration::from_millis(wait));
    }
    let script = "date +%s > at; echo $REDLOCK_TICK > tick";
    let args = ["--tick", "j", "--cron", "*/10 * * * * *", "--", "sh", "-c", script];
    let begun = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    fixture.start(&args).ends(0, "");
    let at: u64 = fixture.read("at").trim().parse().unwrap();
    let tick = humantime::parse_rfc3339(fixture.read("tick").trim()).unwrap();
    let tick = tick.duration_since(UNIX_EPOCH).unwrap().as_secs();
    assert!(at >= tick && tick == begun / 10 * 10 + 10, "{begun} {tick} {at}");
    // The tick is done: a start without it means the former one.
    fixture.start(&[&["--early", "0s"], &args[..]].concat()).ends(0, "");
    assert_eq!(fixture.read("at").trim(), at.to_string());
}

#[test]
fn killed_tick_is_not_repeated() {
    let fixture = Fixture::with_ttl("1s");
    let mut first = tick(&fixture, 7, "echo $$ > begun; sleep 60", &[]);
    fixture.line_of("begun");
    tick(&fixture, 7, "true", &["-n"]).ends(75, "held by redlock@");
    first.signal(rustix::process::Signal::KILL);
    first.wait();
    tick(&fixture, 7, "echo > second", &[]).ends(75, "attempts so far: 1");
    assert_eq!(fixture.read("second"), "");
    tick(&fixture, 7, "echo $REDLOCK_ATTEMPT > third", &["--attempts", "2"]).ends(0, "");
    assert_eq!(fixture.read("third"), "2\n");
}

#[test]
fn leader_leaves_to_next() {
    let fixture = Fixture::new();
    let script = "echo $$ > $0; while :; do sleep 0.01; done";
    let mut first = fixture.start(&["--leader", "l", "--", "sh", "-c", script, "first"]);
    fixture.line_of("first");
    let mut second = fixture.start(&["--leader", "l", "--", "sh", "-c", script, "second"]);
    fixture.start(&["--leader", "l", "-n", "--", "true"]).ends(75, "held by redlock@");
    assert_eq!(fixture.read("second"), "");
    first.signal(rustix::process::Signal::TERM);
    assert_eq!(first.code(), 143);
    fixture.line_of("second");
    second.signal(rustix::process::Signal::TERM);
    assert_eq!(second.code(), 143);
    eventually("nothing is held", || {
        fixture.servers.iter().all(|server| server.keys("*:lock:*").is_empty())
    });
}

mod notified {
    use super::*;

    /// Appends its environment to `told`.
    const NOTIFY: &str =
        "echo $REDLOCK_JOB $REDLOCK_TICK $REDLOCK_ATTEMPT $REDLOCK_OUTCOME: $REDLOCK_ERROR >> told";

    fn notify(fixture: &Fixture, minute: usize, script: &str, more: &[&str]) -> Running {
        let mut args = vec!["--notify-failure", NOTIFY];
        args.extend_from_slice(more);
        tick(fixture, minute, script, &args)
    }

    #[test]
    fn failure_is_told_once() {
        let fixture = Fixture::new();
        notify(&fixture, 1, "true", &[]).ends(0, "");
        assert_eq!(fixture.read("told"), "");

        notify(&fixture, 2, "exit 3", &[]).ends(3, "");
        let told = "report 2025-05-05T00:02:00Z 1 failed: the command ended with exit status: 3\n";
        assert_eq!(fixture.read("told"), told);

        notify(&fixture, 2, "exit 3", &[]).ends(75, "attempts so far: 1");
        assert_eq!(fixture.read("told"), told, "another host knows");
    }

    #[test]
    fn each_attempt_is_told() {
        let fixture = Fixture::new();
        for attempt in 1..=2 {
            notify(&fixture, 1, "exit 4", &["--attempts", "2"]).ends(4, "");
            assert_eq!(fixture.read("told").lines().count(), attempt);
        }
        notify(&fixture, 1, "true", &["--attempts", "2"]).ends(75, "attempts so far: 2");
        assert_eq!(fixture.read("told").lines().count(), 2);
    }

    #[test]
    fn missed_tick_is_told() {
        let fixture = Fixture::new();
        notify(&fixture, 5, "true", &[]).ends(0, "");

        for _ in 0..2 {
            notify(&fixture, 3, "true", &[]).ends(75, "a later tick");
        }

        let told = fixture.read("told");
        assert!(told.starts_with("report 2025-05-05T00:03:00Z 0 missed: "), "{told}");
        assert_eq!(told.lines().count(), 1);
    }

    /// The host that ran it is gone: the next one tells.
    #[test]
    fn interrupted_run_is_told() {
        let fixture = Fixture::with_ttl("2s");
        let mut first = notify(&fixture, 1, "echo $$ > begun; sleep 60", &[]);
        fixture.line_of("begun");
        first.signal(rustix::process::Signal::KILL);
        first.wait();
        assert_eq!(fixture.read("told"), "");

        notify(&fixture, 1, "true", &[]).ends(75, "attempts so far: 1");

        let told = fixture.read("told");
        assert!(told.starts_with("report 2025-05-05T00:01:00Z 1 failed: "), "{told}");
    }

    #[test]
    fn servers_that_are_down_are_told() {
        let mut fixture = Fixture::new();
        fixture.servers.iter_mut().skip(1).for_each(crate::support::RedisServer::kill);

        notify(&fixture, 1, "true", &["-n"]).ends(69, "");

        let told = fixture.read("told");
        assert!(told.starts_with("report 2025-05-05T00:01:00Z 0 unavailable: "), "{told}");
    }
}

mod stopped {
    use super::*;

    fn stop(fixture: &Fixture, more: &[&str]) -> std::process::Output {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_redlock"));
        command.args(["jobs", "stop", "report", "--by", "ann", "--why", "too much"]).args(more);
        command.env("REDLOCK_NODES", crate::support::urls(&fixture.servers).join(","));
        command.env("REDLOCK_CONFIG", fixture.file("config.toml"));
        command.output().unwrap()
    }

    #[test]
    fn run_of_another_host_is_stopped() {
        let fixture = Fixture::new();
        let script = "trap 'echo asked > asked; exit 9' TERM; echo $$ > begun; sleep 60 & wait";
        let mut run = tick(&fixture, 1, script, &["--attempts", "3"]);
        fixture.line_of("begun");

        let output = stop(&fixture, &[]);

        assert!(output.status.success(), "{output:?}");
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.contains("has ended"), "{said}");
        assert_eq!(run.code(), 70);
        assert!(run.output().contains("sh was stopped by ann: too much"), "{}", run.output());
        assert_eq!(fixture.read("asked"), "asked\n");
        tick(&fixture, 1, "echo again >> asked", &["--attempts", "3"]).ends(0, "");
        assert_eq!(fixture.read("asked"), "asked\n", "the tick is not repeated");
    }

    #[test]
    fn deaf_command_is_killed() {
        let fixture = Fixture::new();
        let script = "trap '' TERM; echo $$ > begun; while :; do sleep 1; done";
        let mut run = tick(&fixture, 1, script, &["--kill-after", "2s"]);
        fixture.line_of("begun");

        let output = stop(&fixture, &[]);

        assert!(output.status.success(), "{output:?}");
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(told.contains("waiting for the run of \"report\" to end"), "{told}");
        assert_eq!(run.code(), 70);
    }

    #[test]
    fn idle_job_is_not_running() {
        let fixture = Fixture::new();
        tick(&fixture, 1, "true", &[]).ends(0, "");
        let output = stop(&fixture, &[]);
        assert!(output.status.success(), "{output:?}");
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.contains("\"report\" is not running"), "{said}");
    }
}
