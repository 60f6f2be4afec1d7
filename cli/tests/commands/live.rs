//! `status --watch` without a terminal: a block, or an object, for each change.

use rustix::process::Signal;
use serde_json::Value;

use crate::{
    fixture::{Running, enrolled, store},
    support::RedisServer,
    terminal::Terminal,
};

#[test]
fn prints_a_block_per_change() {
    let mut servers = enrolled(3);
    let mut watch = Running::start(&servers, &["status", "--watch", "--interval=100ms"]);
    let first = watch.until("no locks");
    assert!(first.contains("LOCKS WORK: 3 of 3 nodes vote"), "{first}");
    assert!(!first.contains('\x1b'), "{first:?}");
    store(&servers, "invoice:42", "night-shift", 17);
    let second = watch.until("invoice:42");
    // The state is the same until then: no block in between.
    assert_eq!(second.matches("prefix").count(), 1, "{second}");
    servers[2].kill();
    let third = watch.until("DEGRADED");
    assert!(!third.contains("NO QUORUM"), "{third}");
    assert_eq!(watch.end(Signal::TERM), Some(143));
}

#[test]
fn prints_an_object_per_change() {
    let servers = enrolled(3);
    let mut watch = Running::start(&servers, &["status", "--watch", "--json", "--interval=100ms"]);
    let first: Value = serde_json::from_str(&watch.line()).unwrap();
    assert_eq!((&first["voting"], &first["quorum"]), (&3.into(), &2.into()));
    assert_eq!(first["locks"]["locks"].as_array().unwrap().len(), 0);
    store(&servers, "invoice:42", "night-shift", 17);
    let second: Value = serde_json::from_str(&watch.until("invoice:42")).unwrap();
    assert_eq!(second["locks"]["locks"][0]["token"], 17);
    assert!(second["at_unix_ms"].as_u64() >= first["at_unix_ms"].as_u64());
    assert_eq!(watch.end(Signal::INT), Some(130));
}

#[test]
fn signals_end_it_while_connecting() {
    let servers = RedisServer::start_n(1);
    servers[0].freeze();
    let mut terminal = Terminal::start(&servers, &[], &["status", "--watch"]);
    // The first that it does: it has to be ready for signals by then.
    terminal.says("\x1b[?1049h");
    terminal.send(Signal::HUP);
    assert_eq!(terminal.end(), Some(129));
    terminal.says("\x1b[?1049l");
    servers[0].thaw();
}

#[test]
fn intervals_have_a_minimum() {
    crate::program::run("", &["status", "--watch", "--interval=1ms"]).is(64, &["100ms or more"]);
    crate::program::run("", &["status", "--interval=1s"]).is(64, &["--watch"]);
}
