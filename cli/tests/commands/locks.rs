//! `ls`, and hostile names in `inspect` and `break`.

use serde_json::Value;

use crate::{
    fixture::{enrolled, redlock, store},
    program::Outcome,
    support::RedisServer,
};

/// The cells of each line; the times, which change, as `_`.
fn cells(outcome: &Outcome) -> Vec<Vec<String>> {
    let words = |line: &str| -> Vec<String> {
        let mut words: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
        for time in &mut words[3..5] {
            *time = "_".into();
        }
        words
    };
    let mut rows: Vec<_> = outcome.stdout.lines().skip(1).map(words).collect();
    rows.sort();
    rows
}

#[test]
fn lists_locks_as_a_table() {
    let servers = enrolled(3);
    store(&servers, "invoice:42", "night-shift", 17);
    store(&servers[..2], "invoice:43", "day-shift", 0);
    store(&servers[2..], "left", "crashed", 5);
    // Refused on the node that another client was granted.
    store(&servers[..2], "contended", "first", 6);
    store(&servers[2..], "contended", "second", 7);
    servers[0].set("redlock:lock:odd", "hello");
    let outcome = redlock(&servers, &["ls"]);
    let heading = "OWNER".to_owned();
    assert!(outcome.is(0, &[]).stdout.starts_with("NAME "), "{outcome:#?}");
    let titles: Vec<_> = outcome.stdout.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(titles, ["NAME", &heading, "TOKEN", "HELD", "ENDS", "IN", "NODES", "WAITERS"]);
    let expected = [
        vec!["contended", "first", "6", "_", "_", "2/3"],
        vec!["invoice:42", "night-shift", "17", "_", "_", "3/3"],
        vec!["invoice:43", "day-shift", "-", "_", "_", "2/3"],
        vec!["left", "crashed", "5", "_", "_", "1/3", "minority"],
        // Its owner is two words, so that its columns are one further.
        vec!["odd", "(foreign", "key)", "_", "_", "never", "1/3", "minority"],
    ];
    assert_eq!(cells(&outcome), expected);
    // All columns begin at the same place.
    let at = outcome.stdout.lines().next().unwrap().find("OWNER").unwrap();
    for line in outcome.stdout.lines() {
        assert_eq!(&line[at - 2..at], "  ", "{outcome:#?}");
    }
}

#[test]
fn lists_locks_as_json_lines() {
    let servers = enrolled(3);
    store(&servers, "a", "night-shift", 17);
    store(&servers[1..2], "b", "crashed", 5);
    let outcome = redlock(&servers, &["--json", "ls"]);
    let mut rows: Vec<Value> =
        outcome.is(0, &[]).stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    rows.sort_by_key(|row| row["name"].to_string());
    assert_eq!(rows.len(), 2, "{outcome:#?}");
    assert_eq!((&rows[0]["name"], &rows[0]["owner"]), (&"a".into(), &"night-shift".into()));
    assert_eq!((&rows[0]["token"], &rows[0]["quorum"]), (&17.into(), &true.into()));
    assert_eq!(rows[0]["since_unix_ms"], 1_600_000_000_000_u64);
    assert!(rows[0]["remaining_ms"].as_u64().unwrap() > 1000);
    assert_eq!((&rows[1]["kept"], &rows[1]["nodes"]), (&1.into(), &3.into()));
    assert_eq!(rows[1]["quorum"], false);
}

/// Locks with names of slots, and the lock of the bare name.
fn export_slots() -> Vec<RedisServer> {
    let servers = enrolled(3);
    for (name, owner) in [
        ("export", "whole"),
        ("slot:10:export", "tenth"),
        ("slot:2:export", "second"),
        ("slot:2:report", "other"),
    ] {
        store(&servers, name, owner, 7);
    }
    servers
}

#[test]
fn slots_are_listed_by_name_and_number() {
    let servers = export_slots();
    let names = |args: &[&str]| {
        let outcome = redlock(&servers, args);
        let lines = outcome.is(0, &[]).stdout.lines().filter(|line| line.contains("/3"));
        let mut names: Vec<_> =
            lines.map(|line| line.split("  ").next().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&["ls", "export"]), ["export", "export, slot 10", "export, slot 2"]);
    assert_eq!(names(&["ls", "slot:*:export"]), ["export, slot 10", "export, slot 2"]);
    assert_eq!(names(&["ls", "slot:2:*"]), ["export, slot 2", "report, slot 2"]);
    assert_eq!(redlock(&servers, &["ls", "nothing"]).is(0, &[]).stdout, "");

    let json = redlock(&servers, &["ls", "--json", "slot:2:export"]).is(0, &[]).json();
    assert_eq!(json["name"], "slot:2:export");
    assert_eq!((&json["slot"], &json["slot_of"]), (&2.into(), &"export".into()));
}

#[test]
fn status_lists_slots_by_number() {
    let outcome = redlock(&export_slots(), &["status"]);
    let at = |name: &str| outcome.stdout.find(name).unwrap_or_else(|| panic!("{outcome:#?}"));
    let places = ["export  ", "export, slot 2", "export, slot 10", "report, slot 2"].map(at);
    assert!(places.is_sorted(), "{outcome:#?}");
}

#[test]
fn slot_is_inspected_and_broken_by_its_name() {
    let servers = export_slots();
    let held = "\"export, slot 2\" is held by second";
    redlock(&servers, &["inspect", "slot:2:export"]).is(0, &[held]);
    let json = redlock(&servers, &["--json", "inspect", "slot:2:export"]).is(0, &[]).json();
    assert_eq!((&json["resource"], &json["slot"]), (&"slot:2:export".into(), &2.into()));
    assert_eq!(json["slot_of"], "export");

    let broken = redlock(&servers, &["break", "slot:2:export", "--yes"]);
    broken.is(0, &[held, "deleted on a quorum", "now: \"export, slot 2\" is free"]);
    let free = redlock(&servers, &["inspect", "slot:2:export", "--json"]).is(0, &[]).json();
    assert_eq!((&free["held"], &free["slot"]), (&false.into(), &2.into()));

    // Others are not affected.
    redlock(&servers, &["inspect", "slot:10:export"]).is(0, &["is held by tenth"]);
    redlock(&servers, &["inspect", "export"]).is(0, &["\"export\" is held by whole"]);
    for command in [&["inspect", "slot:*:export"][..], &["break", "slot:*:export", "--yes"]] {
        redlock(&servers, command).is(64, &["redlock ls 'slot:*:export'"]);
    }
}

#[test]
fn degraded_set_lists_its_locks() {
    let mut servers = enrolled(3);
    store(&servers, "a", "me", 1);
    servers[0].kill();
    assert_eq!(cells(redlock(&servers, &["ls"]).is(0, &[]))[0][5], "2/3");
}

/// Text that clears a screen, and that looks like another when it is shown.
const HOSTILE: &str = "evil\x1b[2J\r\u{202e}";

#[test]
fn hostile_owners_are_escaped() {
    let servers = enrolled(3);
    store(&servers, "job", HOSTILE, 7);
    store_in_minority(&servers);
    let texts: [&[&str]; 4] =
        [&["ls"], &["status"], &["inspect", "job"], &["break", "job", "--yes"]];
    for args in texts {
        let outcome = redlock(&servers, args);
        outcome.is(0, &[r"evil\u{1b}[2J\r\u{202e}"]);
        is_harmless(&outcome);
    }
}

#[test]
fn hostile_owners_in_errors_are_escaped() {
    let mut servers = enrolled(3);
    store(&servers, "job", HOSTILE, 7);
    servers[0].kill();
    servers[1].kill();
    let all: [(&[&str], &str); 5] = [
        (&["inspect", "job"], "held by evil"),
        (&["break", "job", "--yes"], "held by evil"),
        (&["ls"], "may be missing"),
        (&["ls", "--json"], "may be missing"),
        (&["status"], "may be missing"),
    ];
    for (args, words) in all {
        is_harmless(redlock(&servers, args).is(69, &[words]));
    }
}

fn store_in_minority(servers: &[RedisServer]) {
    store(&servers[..1], "other", HOSTILE, 7);
}

#[test]
fn hostile_names_are_escaped() {
    let servers = enrolled(3);
    store(&servers, "a\u{202e}b", "me", 7);
    // No name of a lock: nothing that this crate wrote.
    store(&servers, "c\x1b[2Jd", "me", 7);
    for args in [&["ls"][..], &["status"], &["inspect", "a\u{202e}b"]] {
        let outcome = redlock(&servers, args);
        outcome.is(0, &[r"a\u{202e}b"]);
        is_harmless(&outcome);
    }
    let json = redlock(&servers, &["ls", "--json"]);
    assert_eq!(json.is(0, &[]).json()["name"], "a\u{202e}b");
    let outcome = redlock(&servers, &["inspect", "x\x1b[2J"]);
    is_harmless(outcome.is(64, &["invalid resource"]));
}

#[track_caller]
fn is_harmless(outcome: &Outcome) {
    for text in [&outcome.stdout, &outcome.stderr] {
        let is_harmful = |c: char| c == '\u{202e}' || c.is_control() && c != '\n';
        assert!(!text.contains(is_harmful), "{outcome:#?}");
    }
}
