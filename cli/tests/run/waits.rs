//! What is said of waits, and of ticks that need no run.

use rustix::process::Signal;

use crate::{
    program::{Running, Site},
    support::{RedisServer, eventually},
};

#[track_caller]
fn says(run: &Running, words: &str) {
    eventually(words, || run.output().contains(words));
}

#[test]
fn long_wait_names_the_holder_once() {
    let site = Site::new();
    let mut holder = site.script(&["--owner", "the holder"], "echo > begun; sleep 60");
    site.line_of("begun");
    let mut quiet = site.script(&["--quiet"], "true");
    let mut told = site.script(&[], "true");
    says(&told, "redlock: waiting for a, held by the holder for ");
    holder.signal(Signal::TERM);
    holder.code();
    told.ends(0, "");
    assert_eq!(told.output().matches("waiting").count(), 1, "{}", told.output());
    quiet.ends(0, "");
    assert_eq!(quiet.output(), "");
}

#[test]
fn long_wait_names_missing_servers() {
    let mut site = Site::new();
    site.servers.iter_mut().skip(1).for_each(RedisServer::kill);
    let mut run = site.script(&[], "true");
    says(&run, "redlock: waiting for servers: only 1 of 3 nodes vote");
    site.servers.iter_mut().skip(1).for_each(RedisServer::restart);
    run.ends(0, "");
}

#[test]
fn short_wait_is_silent() {
    let site = Site::new();
    let mut run = site.script(&[], "sleep 3");
    run.ends(0, "");
    assert_eq!(run.output(), "");
}

/// cron(8) mails what is printed, from each host.
#[test]
fn tick_that_is_done_is_silent() {
    let site = Site::new();
    let tick = |more: &[&str]| {
        let at = ["--tick", "j", "--cron", "* * * * *", "--at", "2025-05-05T00:00:04Z"];
        site.start(&[&at[..], more, &["--", "true"]].concat())
    };
    let once = |more: &[&str]| site.start(&[&["--once", "k"], more, &["--", "true"]].concat());
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
