//! Tasks that each lock their own name, over sets of servers of several sizes.

use crate::{contestants::Kind, cycles, options::Options, options::rotated, servers::Servers};

pub(crate) const TASKS: [usize; 4] = [1, 16, 64, 256];
/// The sizes that are compared: with [`TASKS`] over five servers, and otherwise with [`FEW_TASKS`].
pub(crate) const NODES: [usize; 5] = [1, 3, 5, 7, 9];
pub(crate) const FEW_TASKS: [usize; 2] = [1, 64];
pub(crate) const KINDS: [Kind; 3] = [Kind::Ours, Kind::Rslock, Kind::Floor];
pub(crate) const WITH_AWAITED: [Kind; 4] = [Kind::Ours, Kind::Awaited, Kind::Rslock, Kind::Floor];
/// The contestants, with the manager's tasks on their own thread, as by default, and on the
/// callers' runtime.
pub(crate) const WITH_RUNTIME: [Kind; 6] =
    [Kind::Ours, Kind::Awaited, Kind::OnRuntime, Kind::OnRuntimeAwaited, Kind::Rslock, Kind::Floor];

pub(crate) fn case(tasks: usize, nodes: usize) -> String {
    let servers = if nodes == 1 { "server" } else { "servers" };
    format!("{} over {nodes} {servers}, distinct names", super::tasks(tasks))
}

/// Measures over the five servers of other scenarios, and over sets of other sizes.
pub(crate) fn measure(five: &Servers, options: &Options) {
    let [one, three, seven, nine] = Servers::start([1, 3, 7, 9]);
    let sets = [&one, &three, five, &seven, &nine];
    for round in 0..options.rounds {
        for (nodes, servers) in NODES.into_iter().zip(sets) {
            let tasks: &[_] = if nodes == 5 { &TASKS } else { &FEW_TASKS };
            for &tasks in tasks {
                for kind in rotated(&WITH_RUNTIME, round) {
                    let outcome = cycles::measure(servers, kind, tasks, options.time, || ());
                    outcome.emit(&case(tasks, nodes), kind);
                }
            }
        }
    }
}
