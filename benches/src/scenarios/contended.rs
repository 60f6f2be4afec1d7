//! Many tasks of one process that repeatedly contend for the same name.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{runtime::Runtime, task::JoinSet};

use crate::{
    contestants::{Contestant, Kind, Waiting},
    cycles::WARM_UP,
    options::Options,
    servers::Servers,
    waits::{Wait, Waits},
};

pub(crate) const TASKS: [usize; 2] = [16, 256];
/// The contestants that can wait.
pub(crate) const KINDS: [Kind; 2] = [Kind::Ours, Kind::Rslock];
const NAME: &str = "bench:contended";

pub(crate) fn case(tasks: usize) -> String {
    format!("{tasks} tasks of one process, one name")
}

pub(crate) fn measure(servers: &Servers, options: &Options) {
    for tasks in TASKS {
        options.rounds(&KINDS, |kind| {
            let waits = measure_one(servers, kind, tasks, options.time);
            waits.emit(&case(tasks), kind.name());
        });
    }
}

fn measure_one(servers: &Servers, kind: Kind, tasks: usize, time: Duration) -> Waits {
    let runtime = Runtime::new().expect("the system gives threads");
    let groups = runtime.block_on(async {
        let connecting =
            Contestant::connect(kind, servers.urls(), servers.alive(), Waiting::Endless);
        let contestant = Arc::new(connecting.await);
        run(&contestant, tasks, WARM_UP).await;
        let groups = run(&contestant, tasks, time).await;
        contestant.close().await;
        groups
    });
    drop(runtime);
    servers.settle();
    Waits::of(&groups, time)
}

/// Runs the tasks, and returns the waits of each.
async fn run(contestant: &Arc<Contestant>, tasks: usize, time: Duration) -> Vec<Vec<Wait>> {
    let mut running = JoinSet::new();
    let started = Instant::now();
    for _ in 0..tasks {
        let contestant = Arc::clone(contestant);
        running.spawn(async move {
            let mut waits = Vec::new();
            while started.elapsed() < time {
                let asked = Instant::now();
                let held = contestant.acquire(NAME).await.expect("nobody keeps it");
                let granted = Instant::now();
                contestant.give_back(NAME, held).await.expect("servers are well");
                let is_in_time = granted.duration_since(started) < time;
                waits.push(Wait { time: granted.duration_since(asked), is_in_time });
            }
            waits
        });
    }
    running.join_all().await
}
