//! A worker process, which follows the driver's orders and reports its holds.

mod hold;
mod holder;
mod link;
mod probe;
mod task;

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tower_redlock::time::{Clock, SystemClock};

use crate::ledger::Event;
use crate::locks::{Locks, Manner};
use crate::message::Report;
use crate::observations::Observation;
use holder::Holder;
pub use holder::NAME;
use link::{Link, Task};

/// The subcommand.
pub const WORKER: &str = "worker";

/// Timeout for releases at the end.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);

/// Interval between two checks of the nodes.
const WATCH_INTERVAL: Duration = Duration::from_millis(10);

/// The client of a worker.
#[derive(Debug)]
pub struct Client {
    /// The locks.
    pub locks: Locks,
    /// How the worker acquires the contended name.
    pub manner: Manner,
}

/// Creates the client of a worker from its number and the words that describe the client.
pub type Connect = fn(usize, &[String]) -> Result<Client, String>;

/// Runs a worker with the arguments after the subcommand. Returns when the driver orders it, or is
/// gone.
pub fn run(mut args: impl Iterator<Item = String>, connect: Connect) -> Result<(), String> {
    let mut number = || args.next()?.parse().ok();
    let worker = number().ok_or("no number of a worker")?;
    let driver = args.next().and_then(|addr| addr.parse().ok()).ok_or("no address of a driver")?;
    let words: Vec<_> = args.collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("no runtime: {error}"))?;
    runtime.block_on(async {
        let link = Link::connect(driver).await;
        let link = Arc::new(link.map_err(|error| format!("no driver: {error}"))?);
        link.report(&Report::Hello(worker));
        let Client { locks, manner } = connect(worker, &words)?;
        let locks = Arc::new(locks);
        tokio::select! {
            ready = locks.ready() => ready?,
            () = link.until(|wanted| wanted.task == Task::Stop) => return Ok(()),
        }
        link.report(&Report::Event(Event::Ready));
        tokio::spawn(probe::run(worker, Arc::clone(&locks), Arc::clone(&link)));
        tokio::spawn(watch(Arc::clone(&locks), Arc::clone(&link)));
        let load = tokio::spawn(load(worker, Arc::clone(&locks), Arc::clone(&link)));
        Holder::new(worker, manner, Arc::clone(&locks), Arc::clone(&link)).run().await;
        load.await.map_err(|error| format!("a task failed: {error}"))?;
        let _ = timeout(SHUTDOWN_TIMEOUT, locks.shutdown()).await;
        link.report(&Report::Event(Event::Ended));
        // The driver ends the process when it has read this.
        std::future::pending().await
    })
}

/// Runs the tasks that the driver orders, until it orders the end.
async fn load(worker: usize, locks: Arc<Locks>, link: Arc<Link>) {
    link.until(|wanted| wanted.load.is_some() || wanted.task == Task::Stop).await;
    let Some(load) = link.wanted().load else { return };
    let mut tasks = JoinSet::new();
    for number in 0..load.tasks {
        let task = task::Task::new(worker, number, load, Arc::clone(&locks), Arc::clone(&link));
        tasks.spawn(task.run());
    }
    tasks.join_all().await;
}

/// Reports each change of a node.
async fn watch(locks: Arc<Locks>, link: Arc<Link>) {
    let Locks::Redlock(redlock) = &*locks else { return };
    link.until(|wanted| wanted.watches).await;
    let clock = SystemClock::new();
    let mut latest: Vec<Option<Observation>> = Vec::new();
    loop {
        let at = clock.now().as_nanos();
        let health = redlock.health();
        latest.resize(health.len(), None);
        for (node, (before, health)) in latest.iter_mut().zip(&health).enumerate() {
            let observation = Observation::of(node, health, at);
            if before.as_ref().is_none_or(|before| observation.is_other_than(before)) {
                link.report(&Report::Observation(observation.clone()));
                *before = Some(observation);
            }
        }
        sleep(WATCH_INTERVAL).await;
    }
}
