//! The allocations of a cycle over real servers, by all threads of the client's process.

use std::{sync::Arc, time::Duration};

use tokio::runtime::Runtime;

use super::distinct::WITH_AWAITED;
use crate::{
    contestants::{Contestant, Kind, Waiting},
    counter::Counter,
    cycles::{WARM_UP, run},
    options::Options,
    samples::emit,
    servers::Servers,
};

pub(crate) const TASKS: [usize; 2] = [1, 64];
/// A short time is enough, as the counts hardly differ between runs.
const ENOUGH: Duration = Duration::from_millis(500);
/// The reported quantities, by the names that the report uses.
pub(crate) const ALLOCATIONS: &str = "allocations";
pub(crate) const BYTES: &str = "bytes";

pub(crate) fn case(tasks: usize) -> String {
    format!("a cycle over 5 servers, {}", super::tasks(tasks))
}

pub(crate) fn measure(counter: &Counter, options: &Options) {
    let [servers] = Servers::start([5]);
    for tasks in TASKS {
        options.rounds(&WITH_AWAITED, |kind| {
            measure_one(&servers, kind, tasks, counter, options);
        });
    }
}

fn measure_one(servers: &Servers, kind: Kind, tasks: usize, counter: &Counter, options: &Options) {
    let runtime = Runtime::new().expect("the system gives threads");
    let [allocations, bytes] = runtime.block_on(async {
        let connecting = Contestant::connect(kind, servers.urls(), servers.alive(), Waiting::None);
        let contestant = Arc::new(connecting.await);
        run(&contestant, kind, tasks, WARM_UP).await;
        counter.begin();
        let outcome = run(&contestant, kind, tasks, options.time.min(ENOUGH)).await;
        // Work in the background belongs to the cycle.
        contestant.close().await;
        counter.end().per(outcome.cycles)
    });
    drop(runtime);
    servers.settle();
    let case = case(tasks);
    eprintln!("  {case}, {}: {allocations:.1} allocations", kind.name());
    emit(&case, kind.name(), ALLOCATIONS, allocations);
    emit(&case, kind.name(), BYTES, bytes);
}
