//! `--slots`: at most n holders of a name.

use rustix::process::Signal;

use crate::{
    program::{Running, Site},
    support::eventually,
};

const REDLOCK: &str = env!("CARGO_BIN_EXE_redlock");
/// Writes the slot to a file named after the owner, and stays.
const STAY: &str = "echo $REDLOCK_SLOT > $REDLOCK_OWNER; exec sleep 60";

/// Starts a holder of one of two slots, and waits until it has its slot. Returns it with the slot.
fn holder(site: &Site, owner: &str) -> (Running, String) {
    let holder = site.script(&["--slots", "2", "--owner", owner], STAY);
    let slot = site.line_of(owner);
    (holder, slot)
}

fn end(mut holder: Running) {
    holder.signal(Signal::TERM);
    assert_eq!(holder.code(), 128 + 15);
}

#[test]
fn full_set_is_75_and_names_all_holders() {
    let site = Site::new();
    let (first, one) = holder(&site, "first");
    let (second, two) = holder(&site, "second");
    let mut slots = [&*one, &*two];
    slots.sort_unstable();
    assert_eq!(slots, ["0", "1"]);
    let refused = |more: &[&str], code, part: &str| {
        let mut run = site.script(&[&["--slots", "2"], more].concat(), "echo > ran");
        run.ends(code, part);
        for held in [format!("slot {one} by first"), format!("slot {two} by second")] {
            assert!(run.output().contains(&held), "{}", run.output());
        }
    };

    refused(&["-n"], 75, "sh was not run: all 2 slots are held: slot 0 by ");
    refused(&["-w", "50ms"], 75, "gave up after waiting");
    refused(&["-n", "-E", "7"], 7, "; one is free in ");

    assert_eq!(site.read("ran"), "");
    // The lock of the name itself is another one.
    site.script(&["-n"], "true").ends(0, "");
    end(first);
    end(second);
    assert_eq!(site.held_on("slot:0:a") + site.held_on("slot:1:a"), 0);
}

#[test]
fn released_slot_goes_to_a_waiting_run() {
    let site = Site::new();
    let (first, one) = holder(&site, "first");
    let (second, _) = holder(&site, "second");
    let mut third = site.script(&["--slots", "2"], "echo slot $REDLOCK_SLOT");
    let waiting = "redlock: waiting for a, any of 2 slots, held: slot 0 by ";
    eventually("it names the holders", || third.output().contains(waiting));
    for held in ["by first for ", "by second for ", ", slot 1 by "] {
        assert!(third.output().contains(held), "{}", third.output());
    }

    end(first);

    third.ends(0, &format!("slot {one}\n"));
    end(second);
}

#[test]
fn environment_has_slot_of_own_lock_only() {
    let site = Site::new();
    let script = "echo $REDLOCK_NAME:$REDLOCK_SLOT:${REDLOCK_TOKEN:+token}";
    site.script(&["--slots", "1"], script).ends(0, "a:0:token\n");
    let inner = format!("echo outer: $REDLOCK_SLOT; {REDLOCK} run b -- sh -c '{script}'");
    site.script(&["--slots", "1"], &inner).ends(0, "outer: 0\nb::token\n");
}

#[test]
fn wrong_slots_are_64() {
    let mut site = Site::new();
    // Nothing is sent.
    site.servers.iter_mut().for_each(crate::support::RedisServer::kill);
    let tick = ["--tick", "j", "--cron", "* * * * *"];
    for (args, part) in [
        (&["--slots", "0", "a"][..], "0 is not in 1..=256"),
        (&["--slots", "257", "a"], "257 is not in 1..=256"),
        (&["--slots", "many", "a"], "invalid value 'many'"),
        (&["--slots", "2", "a", "b"], "--slots takes one name"),
        (&["--slots", "2", "job:a"], "begins with job:"),
        (&["--slots", "2"], "required arguments"),
        (&["--slots", "2", "--once", "k"], "cannot be used with"),
        (&["--slots", "2", "--leader", "l"], "cannot be used with"),
        (&[&["--slots", "2"], &tick[..]].concat(), "cannot be used with"),
    ] {
        site.start(&[args, &["--", "true"]].concat()).ends(64, part);
    }
}

mod nested {
    use super::*;

    /// Returns a script that runs a script under a slot.
    fn inner(options: &str, script: &str) -> String {
        format!("{REDLOCK} run {options} a -- sh -c '{script}'")
    }

    #[test]
    fn free_slot_is_granted() {
        let site = Site::new();
        let script = format!("echo $REDLOCK_SLOT; {}", inner("--slots 2 -n", "echo $REDLOCK_SLOT"));

        let mut run = site.script(&["--slots", "2"], &script);

        assert_eq!(run.code(), 0, "{}", run.output());
        let output = run.output();
        let mut slots: Vec<_> = output.lines().collect();
        slots.sort_unstable();
        assert_eq!(slots, ["0", "1"]);
    }

    #[test]
    fn slot_of_another_process_is_waited_for() {
        let site = Site::new();
        let (other, slot) = holder(&site, "other");
        let script = format!("echo > began; {}", inner("--slots 2", "echo slot $REDLOCK_SLOT"));
        let mut run = site.script(&["--slots", "2"], &script);
        site.line_of("began");
        eventually("it waits", || run.output().contains(&format!("slot {slot} by other")));

        end(other);

        run.ends(0, &format!("slot {slot}\n"));
    }

    #[test]
    fn set_held_above_fails_at_once() {
        let site = Site::new();
        let reason = "all 1 slots of \"a\" are held by redlock runs above it, process ";
        site.script(&["--slots", "1"], &inner("--slots 1", "true")).ends(64, reason);
        let second = inner("--slots 2", &inner("--slots 2", "true").replace('\'', "\""));
        let mut run = site.script(&["--slots", "2"], &second);
        run.ends(64, "all 2 slots of \"a\" are held by redlock runs above it, process ");
        assert!(run.output().contains("--pass-through"), "{}", run.output());
    }

    #[test]
    fn lock_of_the_name_is_another_one() {
        let site = Site::new();
        site.script(&[], &inner("--slots 1 -n", "echo slot $REDLOCK_SLOT")).ends(0, "slot 0\n");
        site.script(&["--slots", "1"], &inner("-n", "echo none:$REDLOCK_SLOT")).ends(0, "none:\n");
    }

    #[test]
    fn option_passes_through_under_any_slot() {
        let site = Site::new();
        let script = "echo slot $REDLOCK_SLOT; exit 7";
        let passed = inner("--slots 2 --pass-through", script);
        let mut run = site.script(&["--slots", "2"], &format!("echo slot $REDLOCK_SLOT; {passed}"));

        assert_eq!(run.code(), 7, "{}", run.output());
        let output = run.output();
        let lines: Vec<_> = output.lines().collect();
        assert!(lines.len() == 2 && lines[0] == lines[1], "{output}");
    }
}
