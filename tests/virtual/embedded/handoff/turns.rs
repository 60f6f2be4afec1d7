//! Two managers over the same nodes, each with many tasks.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use tower_redlock::{Redlock, node::EmbeddedNodes};

use crate::support::HANG_GUARD;

const TASKS: usize = 8;
const FIGHT: Duration = Duration::from_millis(1_500);

#[derive(Default)]
struct Log {
    last_token: u64,
    /// The process of the latest grants, and the start of its streak.
    row: Option<(usize, Instant)>,
    longest_row: Duration,
    grants: [usize; 2],
}

impl Log {
    fn granted(&mut self, manager: usize, token: u64) {
        assert!(token > self.last_token, "in the order of the grants, over both managers");
        self.last_token = token;
        self.grants[manager] += 1;
        let now = Instant::now();
        let since = self.row.filter(|(whose, _)| *whose == manager).map_or(now, |(_, since)| since);
        self.row = Some((manager, since));
        self.longest_row = self.longest_row.max(now - since);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_alternate_with_growing_tokens() {
    let nodes = EmbeddedNodes::new(3);
    let log = Arc::<Mutex<Log>>::default();
    let mut tasks = Vec::new();
    let started = Instant::now();
    for manager in 0..2 {
        let redlock = Redlock::builder().nodes_from(&nodes).wait(HANG_GUARD).build().unwrap();
        for _ in 0..TASKS {
            let (redlock, log) = (redlock.clone(), Arc::clone(&log));
            tasks.push(tokio::spawn(async move {
                while started.elapsed() < FIGHT {
                    let lock = redlock.lock("x").await.unwrap();
                    log.lock().unwrap().granted(manager, lock.fencing_token().get());
                    tokio::task::yield_now().await;
                }
            }));
        }
    }
    for task in tasks {
        task.await.unwrap();
    }
    let log = log.lock().unwrap();
    let fewest = *log.grants.iter().min().unwrap();

    println!("{:?} grants, longest row {:?}", log.grants, log.longest_row);

    assert!(fewest > 100, "both get on: {:?}", log.grants);
    // 100 ms, and a few pauses in which the other process did not retry.
    assert!(log.longest_row < FIGHT * 2 / 3, "{:?}", log.longest_row);
}
