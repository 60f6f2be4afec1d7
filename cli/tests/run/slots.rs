//! `--slots`: at most n holders of a name.

use crate::{
    fixture::{Fixture, Running, nested},
    support::eventually,
};

/// Writes the slot to a file named after the owner, and stays.
const STAY: &str = "echo $REDLOCK_SLOT > $REDLOCK_OWNER; exec sleep 60";

/// Starts a holder of one of two slots, and waits until it has its slot. Returns it with the slot.
fn holder(fixture: &Fixture, owner: &str) -> (Running, String) {
    let holder = fixture.script(&["--slots", "2", "--owner", owner], STAY);
    let slot = fixture.line_of(owner);
    (holder, slot)
}

#[test]
fn full_set_is_75_and_names_all_holders() {
    let fixture = Fixture::new();
    let (first, one) = holder(&fixture, "first");
    let (second, two) = holder(&fixture, "second");
    let mut slots = [&*one, &*two];
    slots.sort_unstable();
    assert_eq!(slots, ["0", "1"]);
    let refused = |more: &[&str], code, part: &str| {
        let mut run = fixture.script(&[&["--slots", "2"], more].concat(), "echo > ran");
        run.ends(code, part);
        for held in [format!("slot {one} by first"), format!("slot {two} by second")] {
            assert!(run.output().contains(&held), "{}", run.output());
        }
    };

    refused(&["-n"], 75, "sh was not run: all 2 slots are held: slot 0 by ");
    refused(&["-w", "50ms"], 75, "gave up after waiting");
    refused(&["-n", "-E", "7"], 7, "; one is free in ");

    assert_eq!(fixture.read("ran"), "");
    // The lock of the name itself is another one.
    fixture.script(&["-n"], "true").ends(0, "");
    first.terminate();
    second.terminate();
    assert_eq!(fixture.held_on("slot:0:a") + fixture.held_on("slot:1:a"), 0);
}

#[test]
fn released_slot_goes_to_a_waiting_run() {
    let fixture = Fixture::new();
    let (first, one) = holder(&fixture, "first");
    let (second, _) = holder(&fixture, "second");
    let mut third = fixture.script(&["--slots", "2"], "echo slot $REDLOCK_SLOT");
    let waiting = "redlock: waiting for a, any of 2 slots, held: slot 0 by ";
    eventually("it names the holders", || third.output().contains(waiting));
    for held in ["by first for ", "by second for ", ", slot 1 by "] {
        assert!(third.output().contains(held), "{}", third.output());
    }

    first.terminate();

    third.ends(0, &format!("slot {one}\n"));
    second.terminate();
}

#[test]
fn inner_run_waits_for_a_slot_of_another_process() {
    let fixture = Fixture::new();
    let (other, slot) = holder(&fixture, "other");
    let script = format!("echo > began; {}", nested("--slots 2", "echo slot $REDLOCK_SLOT"));
    let mut run = fixture.script(&["--slots", "2"], &script);
    fixture.line_of("began");
    eventually("it waits", || run.output().contains(&format!("slot {slot} by other")));

    other.terminate();

    run.ends(0, &format!("slot {slot}\n"));
}

#[test]
fn inner_run_passes_through_under_any_slot() {
    let fixture = Fixture::new();
    let script = "echo slot $REDLOCK_SLOT; exit 7";
    let passed = nested("--slots 2 --pass-through", script);
    let mut run = fixture.script(&["--slots", "2"], &format!("echo slot $REDLOCK_SLOT; {passed}"));

    assert_eq!(run.code(), 7, "{}", run.output());
    let output = run.output();
    let lines: Vec<_> = output.lines().collect();
    assert!(lines.len() == 2 && lines[0] == lines[1], "{output}");
}
