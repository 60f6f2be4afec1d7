//! A minute of ticks, with replicas that are killed and frozen.

use std::{thread, time::Duration};

use super::{
    journal::{Line, now},
    replica::{PERIOD, Plan, TTL},
    replicas::{Fleet, Freeze},
    verdict::Verdict,
};

const REPLICAS: usize = 3;
const MINUTE: Duration = Duration::from_secs(60);
/// From one mishap to the next.
const PAUSE: Duration = Duration::from_secs(3);
/// How long a replica that was killed is away.
const AWAY: Duration = Duration::from_millis(500);
const FREEZE: Duration = TTL.saturating_mul(3);

/// What is promised, and to whom.
///
/// - A tick is started at most once: the job claims at the start.
/// - Two runs are never *polled* at the same time, and no poll begins once the run's lock is over.
///   A frozen process does not see the end of its lock: it may be inside a poll then, and what is
///   left of that poll happens when it is thawed. So of a poll in which its process was frozen, only
///   the begin counts. What it still writes has an old token: whoever checks tokens is not harmed.
/// - A run that was frozen between two polls never continues: its last line is missing.
/// - Tokens rise in the order of starts.
/// - A mishap costs the ticks that come while the lock of a run that was broken off is still held
///   (a TTL, so two or three), and no others: at least nine in ten run.
#[test]
fn tick_starts_once_despite_faults() {
    let mut fleet = Fleet::start(Plan::Short, 3, REPLICAS);
    let begun = now();
    let mut freezes = Vec::new();
    for mishap in 0.. {
        // At another point of the period each time.
        thread::sleep(PAUSE + PERIOD * (mishap * 7 % 20) / 20);
        if now().saturating_duration_since(begun) + PAUSE > MINUTE {
            break;
        }
        match mishap % 4 {
            1 => freezes.push(freeze(&mut fleet)),
            3 => kill_in_a_run(&mut fleet),
            _ => kill(&mut fleet, mishap as usize / 2 % REPLICAS),
        }
    }
    thread::sleep(MINUTE.saturating_sub(now().saturating_duration_since(begun)));
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
