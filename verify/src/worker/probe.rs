//! Attempts on an uncontended name, which show whether a lock can be acquired at all.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use tower_redlock::time::{Clock, SystemClock};

use super::link::Link;
use crate::ledger::Attempt;
use crate::locks::{Locks, Manner};
use crate::message::Report;

const INTERVAL: Duration = Duration::from_millis(25);

pub(super) async fn run(worker: usize, locks: Arc<Locks>, link: Arc<Link>) {
    link.until(|wanted| wanted.probes).await;
    let name = format!("probe-{worker}");
    let clock = SystemClock::new();
    while !link.is_stopped() {
        let from = clock.now().as_nanos();
        let held = locks.acquire(&name, Manner::Exclusive, Duration::ZERO).await;
        let (until, granted) = (clock.now().as_nanos(), held.is_some());
        let voting = locks.voting();
        link.report(&Report::Attempt(Attempt { worker, from, until, granted, voting }));
        if let Some(held) = held {
            held.release().await;
        }
        sleep(INTERVAL).await;
    }
}
