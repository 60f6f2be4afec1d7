//! How a worker builds its client.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use tower_redlock::{Redlock, node::redis::RestartGuard};
use tower_redlock_verify::locks::Locks;
use tower_redlock_verify::plain::{Plain, PlainOptions, Url};

use super::options::WorkerOptions;
use crate::hand_clock::HandClock;
use crate::trial::{LocksKind, PREFIX};

/// Timeout for an answer of a server.
const NODE_TIMEOUT: Duration = Duration::from_millis(50);

/// Short, so that there are requests after servers have forgotten a lock and before its holder has
/// renewed it.
const RETRY_DELAY: RangeInclusive<Duration> = Duration::from_millis(5)..=Duration::from_millis(20);

/// Offsets of the workers' wall clocks, in spite of which tokens must grow.
const SKEW: Duration = Duration::from_secs(20);

/// Builds the client that the options name.
pub(super) fn locks(options: &WorkerOptions) -> Result<Locks, String> {
    let urls = options.urls.split(',');
    match options.locks {
        LocksKind::Plain => {
            let urls = urls.map(|url| {
                let url = url.to_owned();
                Box::new(move || Ok(url.clone())) as Url
            });
            let stream = u64::try_from(options.worker).expect("a small number");
            let plain = PlainOptions {
                ttl: options.ttl,
                node_timeout: NODE_TIMEOUT,
                prefix: PREFIX,
                lifetime: None,
                seed: options.seed ^ stream << 32,
            };
            Ok(Locks::Plain(Arc::new(Plain::new(urls, plain))))
        }
        LocksKind::Redlock { restart_guard } => {
            let guard = if restart_guard { RestartGuard::Probation } else { RestartGuard::Off };
            let built = Redlock::builder()
                .nodes(urls)
                .ttl(options.ttl)
                .max_ttl(options.ttl)
                .node_timeout(NODE_TIMEOUT)
                .retry_delay(RETRY_DELAY)
                .key_prefix(PREFIX)
                .owner(format!("worker {}", options.worker))
                .clock(clock(options.worker))
                .restart_guard(guard)
                .build();
            built.map(Locks::Redlock).map_err(|error| error.to_string())
        }
    }
}

/// The system's clock, with an offset of the wall clock that depends on the worker.
fn clock(worker: usize) -> HandClock {
    let clock = HandClock::system();
    match worker % 3 {
        0 => {}
        1 => clock.set_wall_ahead(SKEW),
        _ => clock.set_wall_behind(SKEW),
    }
    clock
}
