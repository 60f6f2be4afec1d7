//! A `redlock run` inside of the command of another one.

use crate::{
    fixture::{Fixture, REDLOCK, nested},
    support::urls,
};

/// Names and options of the outer run, the arguments of the inner one, and the exit code and a part of the output.
const NESTED: [(&[&str], &str, i32, &str); 18] = [
    (&["a"], "a -- true", 64, ABOVE),
    (&["a", "b"], "b c -- true", 64, ABOVE),
    (&["--once", "k"], "--once k -- true", 64, ABOVE),
    (&["--leader", "l"], "--leader l -- true", 64, ABOVE),
    (&["--tick", "j", "--cron", "* * * * *"], "--tick j --cron \"* * * * *\" -- true", 64, ABOVE),
    (&["a"], "b -- echo ran", 0, "ran\n"),
    (&["a"], "--leader a -- echo ran", 0, "ran\n"),
    (&["a"], "a --pass-through -- sh -c \"echo t\\$REDLOCK_TOKEN; exit 7\"", 7, "t"),
    // Readers.
    (&["--shared", "a"], "--shared a -- sh -c \"echo \\$REDLOCK_MODE; exit 7\"", 7, "shared\n"),
    (&["--shared", "a"], "a -- echo ran", 64, "redlock run above it, process "),
    (&["--shared", "a"], "--pass-through a -- echo ran", 64, "redlock run above it, process "),
    (&["a"], "--shared a -- echo ran", 64, ABOVE),
    (&["a"], "--shared --pass-through a -- echo ran", 0, "ran\n"),
    (&["--shared", "a"], "b -- sh -c \"echo mode:\\$REDLOCK_MODE\"", 0, "mode:\n"),
    // Slots; the lock of the name itself is another one.
    (
        &["--slots", "1", "a"],
        "--slots 1 a -- true",
        64,
        "all 1 slots of \"a\" are held by redlock runs above",
    ),
    (&["a"], "--slots 1 -n a -- sh -c \"echo slot \\$REDLOCK_SLOT\"", 0, "slot 0\n"),
    (&["--slots", "1", "a"], "-n a -- sh -c \"echo slot:\\$REDLOCK_SLOT\"", 0, "slot:\n"),
    (&["--slots", "1", "a"], "b -- sh -c \"echo slot:\\$REDLOCK_SLOT\"", 0, "slot:\n"),
];
const ABOVE: &str = "is held by the redlock run above it, process ";

#[test]
fn only_what_is_held_above_fails_at_once() {
    let fixture = Fixture::new();
    for (outer, inner, code, part) in NESTED {
        let script =
            format!("sh -c '{REDLOCK} run {inner}'; code=$?; echo inner: $code; exit $code");
        let mut run = fixture.start(&[outer, &["--", "sh", "-c", &script]].concat());
        run.ends(code, part);
        let output = run.output();
        assert!(output.contains(&format!("inner: {code}\n")), "{outer:?} {inner}: {output}");
        assert!(code == 0 || !output.contains("ran\n"), "{outer:?} {inner}: {output}");
        if part == ABOVE {
            assert!(output.contains("--pass-through"), "{outer:?} {inner}: {output}");
        }
    }
    assert_eq!(fixture.held_on("a"), 0);
}

#[test]
fn all_slots_held_above_fail_at_once() {
    let fixture = Fixture::new();
    let second = nested("--slots 2", &nested("--slots 2", "true").replace('\'', "\""));
    let mut run = fixture.script(&["--slots", "2"], &second);
    run.ends(64, "all 2 slots of \"a\" are held by redlock runs above it, process ");
    assert!(run.output().contains("--pass-through"), "{}", run.output());
}

#[test]
fn other_sets_are_locked() {
    let (fixture, other) = (Fixture::new(), Fixture::new());
    let nodes = urls(&other.servers).join(",");
    let script = format!("REDLOCK_NODES='{nodes}' {REDLOCK} run a -- echo ran");
    fixture.script(&[], &script).ends(0, "ran\n");
}

#[test]
fn option_locks_where_nothing_is_held_above() {
    let fixture = Fixture::new();
    fixture.start(&["a", "--pass-through", "--", "sh", "-c", "echo $REDLOCK_NAME"]).ends(0, "a\n");
}

/// The environment of the former holder, in a process that is not below it.
#[test]
fn environment_alone_holds_nothing() {
    let fixture = Fixture::new();
    fixture.script(&[], "echo \"$REDLOCK_HELD\" > held").ends(0, "");
    let held = fixture.line_of("held");
    assert!(held.contains("\"a\""), "{held}");
    for value in [held.as_str(), "{", ""] {
        let mut command = fixture.command(&["a", "--", "echo", "ran"]);
        command.env("REDLOCK_HELD", value);
        fixture.start_command(command).ends(0, "ran\n");
    }
}
