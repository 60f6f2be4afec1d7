//! What is different on a terminal: the live view, colours, confirmations.

use rustix::process::Signal;

use crate::{
    fixture::{enrolled, redlock, store},
    support::{RedisServer, eventually},
    terminal::Terminal,
};

const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";

const WATCH: [&str; 3] = ["status", "--watch", "--interval=100ms"];

#[track_caller]
fn is_restored(terminal: &Terminal) {
    eventually("the screen is restored", || {
        terminal.text().trim_end().ends_with(LEAVE) && terminal.is_cooked()
    });
}

#[test]
fn redraws_in_place() {
    let mut servers = enrolled(3);
    let mut terminal = Terminal::start(&servers, &[], &WATCH);
    terminal.shows("LOCKS WORK");
    terminal.shows("no locks");
    assert!(!terminal.is_cooked());
    store(&servers, "invoice:42", "night-shift", 17);
    terminal.shows("invoice:42");
    servers[2].kill();
    terminal.shows("DEGRADED");
    terminal.types("x");
    terminal.types("q");
    assert_eq!(terminal.end(), Some(0));
    is_restored(&terminal);
    assert_eq!(terminal.text().matches(ENTER).count(), 1);
    // Nothing was printed below the view.
    assert!(!terminal.text().contains("qx"), "{}", terminal.text());
}

#[test]
fn long_wait_has_a_clock() {
    let servers = enrolled(3);
    store(&servers, "invoice:42", "night-shift", 17);
    let run = ["run", "invoice:42", "--", "echo", "it ran"];
    let mut terminal = Terminal::start(&servers, &[], &run);
    let line = "s  redlock: waiting for invoice:42, held by night-shift";
    terminal.says(line);
    // The line is drawn again and again, in its place.
    eventually("the clock runs", || {
        let text = terminal.text();
        [" 2.", " 3.", " 4."].iter().all(|second| {
            text.split('\r').any(|line| line.contains(second) && line.contains("waiting for"))
        })
    });
    assert!(!terminal.text().contains('\n'), "{:?}", terminal.text());
    for server in &servers {
        server.cli(&["DEL", "redlock:lock:invoice:42"]);
    }
    assert_eq!(terminal.end(), Some(0));
    eventually("the command wrote below nothing", || {
        terminal.text().ends_with("\r\x1b[Kit ran\r\n")
    });
}

#[test]
fn signals_restore_the_screen() {
    let servers = enrolled(1);
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let mut terminal = Terminal::start(&servers, &[], &WATCH);
        terminal.shows("LOCKS WORK");
        terminal.send(signal);
        assert_eq!(terminal.end(), Some(code));
        is_restored(&terminal);
    }
}

#[test]
fn view_follows_the_size() {
    let servers = enrolled(1);
    for i in 0..40 {
        store(&servers, &format!("name-{i:02}"), "me", 1);
    }
    let terminal = Terminal::start(&servers, &[], &WATCH);
    terminal.shows("name-05");
    terminal.shows("more");
    assert_eq!(terminal.frame().matches("\r\n").count(), 23);
    terminal.resize(10, 40);
    eventually("ten lines", || terminal.frame().matches("\r\n").count() == 9);
    terminal.resize(60, 120);
    terminal.shows("name-39");
}

#[test]
fn stopped_program_returns_the_screen() {
    let servers = enrolled(1);
    let mut terminal = Terminal::start(&servers, &[], &WATCH);
    terminal.shows("LOCKS WORK");
    terminal.send(Signal::TSTP);
    eventually("it is stopped", || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", terminal.pid())).unwrap();
        stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'))
    });
    is_restored(&terminal);
    terminal.send(Signal::CONT);
    eventually("it is back", || terminal.text().matches(ENTER).count() == 2);
    terminal.types("q");
    assert_eq!(terminal.end(), Some(0));
    is_restored(&terminal);
}

#[test]
fn colours_only_without_no_color() {
    let servers = enrolled(1);

    for env in [&[][..], &[("TERM", "dumb"), ("CI", "true")]] {
        let mut colored = Terminal::start(&servers, env, &["status"]);
        assert_eq!(colored.end(), Some(0));
        colored.says("\x1b[32mHEALTHY\x1b[0m");
    }

    for env in [("NO_COLOR", "1"), ("TERM", "dumb"), ("CLICOLOR", "0")] {
        let mut plain = Terminal::start(&servers, &[env], &["status"]);
        assert_eq!(plain.end(), Some(0));
        plain.says("HEALTHY: ");
        assert!(!plain.text().contains('\x1b'), "{:?}", plain.text());
    }

    let plain = redlock(&servers, &["status"]);
    assert!(!plain.is(0, &["HEALTHY: "]).stdout.contains('\x1b'));
    let view = Terminal::start(&servers, &[("NO_COLOR", "1")], &WATCH);
    view.shows("LOCKS WORK: ");
    assert!(!view.text().contains("\x1b[3"), "{:?}", view.text());
}

#[test]
fn progress_is_one_line() {
    let servers = RedisServer::start_n(1);
    let args = ["doctor", "--wait", "--no-probe"];
    let mut terminal = Terminal::guarded(&servers, "2s", &args);
    assert_eq!(terminal.end(), Some(0));
    terminal.says("HEALTHY");
    let text = terminal.text();
    let (progress, _) = text.split_once("voting").expect("the report");
    assert!(progress.matches("\r\x1b[K").count() > 5, "{text:?}");
    // All of them on one line, which is cut to the width and cleared at the end.
    assert_eq!(progress.matches('\n').count(), 0, "{text:?}");
    assert!(progress.contains("0 of 1 nodes vote") && progress.contains('…'), "{text:?}");
}

#[test]
fn confirmation_is_typed() {
    let servers = enrolled(3);
    store(&servers, "job", "night-shift", 17);
    for (answer, code, is_kept) in [("no\n", 64, true), ("\n", 64, true), ("yes\n", 0, false)] {
        let mut terminal = Terminal::start(&servers, &[], &["break", "job"]);
        terminal.says("Take \"job\" away from night-shift? Type yes:");
        terminal.types(answer);
        assert_eq!(terminal.end(), Some(code), "{}", terminal.text());
        let kept = servers.iter().filter(|server| server.exists("redlock:lock:job")).count();
        assert_eq!(kept, if is_kept { 3 } else { 0 }, "{answer:?}");
    }
}
