//! Four processes that want the slots of one name: how many are in use, and by whom.

use std::time::Duration;

use crate::{
    child::{self, Locks, Part, run_all},
    contestants::Kind,
    options::Options,
    report::format::significant,
    samples::emit,
    servers::Servers,
};

const SLOTS: usize = 20;
const PROCESSES: usize = 4;
/// Number of tasks in each process. Together they want three times the slots.
const TASKS: usize = 16;
const HOLD: Duration = Duration::from_millis(2);

/// Mean number of slots that are held at a time, as a share of all slots.
pub(crate) const IN_USE: &str = "share of the slots in use";
/// Number of acquires of a slot that the servers ran for each grant and server: 1 if none is refused.
pub(crate) const ACQUIRES: &str = "acquires for a grant";
/// Number of scripts of all kinds that the servers ran for each grant and server.
pub(crate) const SCRIPTS: &str = "scripts for a grant";

pub(crate) fn case() -> String {
    format!("{SLOTS} slots, {PROCESSES} processes × {TASKS}, held for {} ms", HOLD.as_millis())
}

pub(crate) fn measure(servers: &Servers, options: &Options) {
    let (case, who) = (case(), Kind::Ours.name());
    for _ in 0..options.rounds {
        let locks = Locks::Slots(SLOTS);
        let part = Part { kind: Kind::Ours, tasks: TASKS, locks, hold: HOLD, time: options.time };
        // An acquire of one name reads its fence with ZSCORE, in the script that contended names need.
        let calls = || ["zscore", "evalsha"].map(|command| servers.calls(command));
        let before = calls();
        let turns = run_all(servers, part, PROCESSES);
        let after = calls();
        child::waits(&turns, options.time).emit(&case, who);
        let slots = f64::from(u32::try_from(SLOTS).expect("256 at most"));
        let in_use = child::held_at_a_time(&turns, options.time) / slots;
        let each = |i: usize| (after[i] - before[i]) / child::count(&turns) / servers.count();
        let [acquires, scripts] = [0, 1].map(each);
        for (what, value) in [(IN_USE, in_use), (ACQUIRES, acquires), (SCRIPTS, scripts)] {
            emit(&case, who, what, value);
        }
        let [in_use, acquires, scripts] = [in_use, acquires, scripts].map(significant);
        eprintln!(
            "    {in_use} of the slots in use; {acquires} acquires and {scripts} scripts for a grant"
        );
    }
}
