//! A worker process, which follows the driver's orders and reports its holds.

mod holder;
mod hosts;
mod link;
mod locks;
mod options;
mod probe;

use std::sync::Arc;

use crate::ledger::Event;
use crate::message::Report;
use holder::Holder;
use link::{Link, Task};
pub(crate) use options::{WORKER, WorkerOptions};

/// Returns when the driver orders it, or is gone.
pub(crate) fn run(options: &WorkerOptions) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("no runtime: {error}"))?;
    runtime.block_on(async {
        let link = Link::connect(options.control).await;
        let link = Arc::new(link.map_err(|error| format!("no driver: {error}"))?);
        link.report(&Report::Hello(options.worker));
        let locks = Arc::new(locks::locks(options)?);
        tokio::select! {
            ready = locks.ready() => ready?,
            () = link.until(|wanted| wanted.task == Task::Stop) => return Ok(()),
        }
        link.report(&Report::Event(Event::Ready));
        let probes = probe::run(options.worker, Arc::clone(&locks), Arc::clone(&link));
        tokio::spawn(probes);
        Holder::new((options.worker, options.client), locks, Arc::clone(&link)).run().await;
        link.report(&Report::Event(Event::Ended));
        // The driver ends the process when it has read this.
        std::future::pending().await
    })
}
