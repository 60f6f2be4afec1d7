//! What is said of waits, and of ticks that need no run.

use std::{
    process::Command,
    time::{Duration, SystemTime},
};

use rustix::process::Signal;

use crate::{
    fixture::Fixture,
    support::{RedisServer, urls},
};

#[test]
fn long_wait_names_the_holder_once() {
    let fixture = Fixture::new();
    let mut holder = fixture.script(&["--owner", "the holder"], "echo > begun; sleep 60");
    fixture.line_of("begun");
    let mut quiet = fixture.script(&["--quiet"], "true");
    let mut told = fixture.script(&[], "true");
    told.wait_says("redlock: waiting for a, held by the holder for ");
    holder.signal(Signal::TERM);
    holder.code();
    told.ends(0, "");
    assert_eq!(told.output().matches("waiting").count(), 1, "{}", told.output());
    quiet.ends(0, "");
    assert_eq!(quiet.output(), "");
}

#[test]
fn long_wait_names_missing_servers() {
    let mut fixture = Fixture::new();
    fixture.servers.iter_mut().skip(1).for_each(RedisServer::kill);
    let mut run = fixture.script(&[], "true");
    run.wait_says("redlock: waiting for servers: only 1 of 3 nodes vote");
    fixture.servers.iter_mut().skip(1).for_each(RedisServer::restart);
    run.ends(0, "");
}

#[test]
fn short_wait_is_silent() {
    let fixture = Fixture::new();
    let mut run = fixture.script(&[], "sleep 3");
    run.ends(0, "");
    assert_eq!(run.output(), "");
}

/// cron(8) mails what is printed, from each host.
#[test]
fn tick_that_is_done_is_silent() {
    let fixture = Fixture::new();
    let tick = |more: &[&str]| {
        let at = ["--tick", "j", "--cron", "* * * * *", "--at", "2025-05-05T00:00:04Z"];
        fixture.start(&[&at[..], more, &["--", "true"]].concat())
    };
    let once = |more: &[&str]| fixture.start(&[&["--once", "k"], more, &["--", "true"]].concat());
    tick(&[]).ends(0, "");
    once(&[]).ends(0, "");
    for (mut run, expected) in [
        (tick(&[]), ""),
        (tick(&["--quiet", "-v"]), ""),
        (tick(&["-v"]), "has run this tick"),
        (once(&[]), ""),
        (once(&["-v"]), "has done it at"),
    ] {
        run.ends(0, expected);
        let said = run.output().contains("was not run");
        assert_eq!(said, !expected.is_empty(), "{}", run.output());
    }
}

#[test]
fn paused_tick_is_silent() {
    let fixture = Fixture::new();
    let mut pause = Command::new(env!("CARGO_BIN_EXE_redlock"));
    pause.args(["jobs", "pause", "j", "--anyway", "--by", "ann"]);
    pause.env("REDLOCK_NODES", urls(&fixture.servers).join(","));
    pause.env("REDLOCK_CONFIG", fixture.file("config.toml"));
    let output = pause.output().unwrap();
    assert!(output.status.success(), "{output:?}");

    for (more, expected) in [(&[][..], ""), (&["-v"], "ann has paused the job")] {
        let args = [&["--tick", "j", "--cron", "* * * * *"], more, &["--", "true"]].concat();
        let mut run = fixture.start(&args);
        run.ends(0, expected);
        assert_eq!(run.output().is_empty(), expected.is_empty(), "{}", run.output());
    }
}

/// Each host waits for others at many ticks.
#[test]
fn wait_for_other_host_is_silent() {
    let fixture = Fixture::new();
    let tick = |more: &[&str], script: &str| {
        let at = ["--tick", "j", "--cron", "* * * * *", "--at", "2025-05-05T00:00:04Z"];
        let job = ["--work-id", "j"];
        fixture.start(&[&at[..], &job, more, &["--", "sh", "-c", script]].concat())
    };
    let mut first = tick(&[], "echo > begun; until [ -e go ]; do sleep 0.05; done");
    fixture.line_of("begun");
    let mut silent = tick(&[], "true");
    let mut told = tick(&["-v"], "true");

    told.wait_says("redlock: waiting for another host, which runs a tick of j");
    std::fs::write(fixture.file("go"), "").unwrap();

    first.ends(0, "");
    told.ends(0, "has run this tick");
    silent.ends(0, "");
    assert_eq!(silent.output(), "");
}

/// It waits for no other host.
#[test]
fn early_start_names_its_tick() {
    let fixture = Fixture::new();
    let at = SystemTime::now() + Duration::from_secs(9);
    let at = humantime::format_rfc3339_seconds(at).to_string();
    let [hour, minute, second] = [11, 14, 17].map(|at_byte| &at[at_byte..at_byte + 2]);
    let cron = format!("{second} {minute} {hour} * * *");
    let tick = |job: &str, more: &[&str]| {
        let args = ["--tick", job, "--cron", &cron, "--tz", "UTC", "--early", "1m"];
        fixture.start(&[&args, more, &["--", "sh", "-c", "echo $REDLOCK_TICK"]].concat())
    };
    let mut told = tick("told", &["-v"]);
    let mut silent = tick("silent", &[]);

    told.wait_says(&format!("redlock: waiting for the tick of told at {at}"));

    told.ends(0, &format!("{at}\n"));
    silent.ends(0, "");
    assert_eq!(silent.output(), format!("{at}\n"));
}
