//! A `redlock run` inside of the command of another one.

use crate::{
    program::{Running, Site},
    support::urls,
};

const REDLOCK: &str = env!("CARGO_BIN_EXE_redlock");

/// Starts `redlock run` with these options, whose command is another one with those, in a shell.
fn nested(site: &Site, outer: &[&str], inner: &str) -> Running {
    let script = format!("sh -c '{REDLOCK} run {inner}'; code=$?; echo inner: $code; exit $code");
    site.start(&[outer, &["--", "sh", "-c", &script]].concat())
}

#[test]
fn name_held_above_fails_at_once() {
    let site = Site::new();
    for (outer, inner) in [
        (&["a"][..], "a -- true"),
        (&["a", "b"], "b c -- true"),
        (&["--once", "k"], "--once k -- true"),
        (&["--leader", "l"], "--leader l -- true"),
        (&["--tick", "j", "--cron", "* * * * *"], "--tick j --cron \"* * * * *\" -- true"),
    ] {
        let mut run = nested(&site, outer, inner);
        run.ends(64, "is held by the redlock run above it, process");
        assert!(run.output().contains("--pass-through"), "{}", run.output());
    }
    assert_eq!(site.held_on("a"), 0);
}

#[test]
fn other_names_and_sets_are_locked() {
    let site = Site::new();
    for inner in ["b -- echo ran", "--leader a -- echo ran"] {
        nested(&site, &["a"], inner).ends(0, "ran\ninner: 0\n");
    }
    let other = Site::new();
    let nodes = urls(&other.servers).join(",");
    let script = format!("REDLOCK_NODES='{nodes}' {REDLOCK} run a -- echo ran");
    site.script(&[], &script).ends(0, "ran\n");
}

#[test]
fn option_passes_through() {
    let site = Site::new();
    let inner = "a --pass-through -- sh -c \"echo token $REDLOCK_TOKEN; exit 7\"";
    let mut run = nested(&site, &["a"], inner);
    run.ends(7, "inner: 7\n");
    assert!(run.output().starts_with("token "), "{}", run.output());
    // Where nothing is held above, it locks.
    site.start(&["a", "--pass-through", "--", "sh", "-c", "echo $REDLOCK_NAME"]).ends(0, "a\n");
}

/// The environment of the former holder, in a process that is not below it.
#[test]
fn environment_alone_holds_nothing() {
    let site = Site::new();
    site.script(&[], "echo \"$REDLOCK_HELD\" > held").ends(0, "");
    let held = site.line_of("held");
    assert!(held.contains("\"a\""), "{held}");
    for value in [held.as_str(), "{", ""] {
        let mut command = site.command(&["a", "--", "echo", "ran"]);
        command.env("REDLOCK_HELD", value);
        site.start_command(command).ends(0, "ran\n");
    }
}
