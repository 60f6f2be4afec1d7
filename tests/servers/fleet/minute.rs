//! Half a minute of ticks, with replicas that are killed and frozen.

use std::{thread, time::Duration};

use super::{
    journal::{Line, now},
    replica::{PERIOD, Plan, TTL},
    replicas::{Fleet, Freeze},
    verdict::Verdict,
};

const REPLICAS: usize = 3;
/// Duration of the test.
const DURATION: Duration = Duration::from_secs(30);
/// Interval between faults.
const PAUSE: Duration = Duration::from_secs(2);
/// Time until a killed replica is started again.
const AWAY: Duration = Duration::from_millis(500);
const FREEZE: Duration = TTL.saturating_mul(3);

/// The guarantees that this test checks:
///
/// - A tick is started at most once: the job claims at the start.
/// - Two runs are never *polled* at the same time, and no poll begins once the run's lock is over.
///   A frozen process does not detect the end of its lock. If it is inside a poll, the rest of that
///   poll runs when it is thawed. Therefore only the begin of a poll counts in which the process was
///   frozen. Its late writes have an old token, and resources that check tokens reject them.
/// - A run that was frozen between two polls never continues: its last line is missing.
/// - Tokens grow in the order of starts.
/// - A fault costs only the ticks that are due while the lock of an interrupted run is still held
///   (a TTL, so two or three): more than nine in ten ticks run. On a loaded machine, nodes that do
///   not answer within 50 ms cost further ticks, so one in four has to run.
#[test]
fn tick_starts_once_despite_faults() {
    let mut fleet = Fleet::start(Plan::Short, 3, REPLICAS);
    let begun = now();
    let mut freezes = Vec::new();
    for mishap in 0.. {
        // Each fault is at another point of the period.
        thread::sleep(PAUSE + PERIOD * (mishap * 7 % 20) / 20);
        if now().saturating_duration_since(begun) + PAUSE > DURATION {
            break;
        }
        match mishap % 4 {
            1 => freezes.push(freeze(&mut fleet)),
            3 => kill_in_a_run(&mut fleet),
            _ => kill(&mut fleet, mishap as usize / 2 % REPLICAS),
        }
    }
    // The fleet runs in real time.
    thread::sleep(DURATION.saturating_sub(now().saturating_duration_since(begun)));
    let lines = fleet.stop();

    let verdict = Verdict::of(&lines, &freezes);
    println!("{verdict}");
    verdict.check();
}

fn any(_: &Line) -> bool {
    true
}

fn kill_in_a_run(fleet: &mut Fleet) {
    let run = fleet.next_run("a run to be killed", any);
    kill(fleet, run.run.replica);
}

fn kill(fleet: &mut Fleet, replica: usize) {
    let killed = fleet.kill(replica);
    // The time for which the replica is down.
    thread::sleep(AWAY);
    fleet.start_replica(replica);
    fleet.is_up(replica, killed);
}

fn freeze(fleet: &mut Fleet) -> Freeze {
    let mut tries = (0..10).filter_map(|_| {
        let run = fleet.next_run("a run to be frozen", any);
        fleet.freeze_in(&run, FREEZE)
    });
    tries.next().expect("one of ten runs is caught before its end")
}
