//! How a worker builds its client.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use tower_redlock::Redlock;
use tower_redlock::node::redis::RestartGuard;
use tower_redlock_verify::locks::Locks;
use tower_redlock_verify::plain::{Plain, PlainOptions, Url};

use super::options::{Client, WorkerOptions};
use crate::hand_clock::HandClock;
use crate::site::{PREFIX, master_by};

/// TTL of every lock.
pub(crate) const TTL: Duration = Duration::from_secs(1);

/// Timeout for an answer of a server.
const NODE_TIMEOUT: Duration = Duration::from_millis(100);

/// Short, so that there are requests after servers have forgotten a lock and before its holder has
/// renewed it.
const RETRY_DELAY: RangeInclusive<Duration> = Duration::from_millis(5)..=Duration::from_millis(20);

/// Offsets of the workers' wall clocks, in spite of which tokens must grow.
const SKEW: Duration = Duration::from_secs(20);

/// The prefix of the control's keys.
const PLAIN_PREFIX: &str = "plain";

/// Maximum age of the control's connections. Some of its processes find the new master while others
/// are connected to the former one, which stays a master for some 8 s.
const LIFETIME: Duration = Duration::from_secs(8);

/// TTL of the control's keys, longer than an election takes. Otherwise they expire before the
/// promoted server, which lacks some of them, is available.
const PLAIN_TTL: Duration = Duration::from_secs(5);

/// Timeout of the control for its only server.
const PLAIN_TIMEOUT: Duration = Duration::from_millis(500);

/// Builds the client that the options name.
pub(super) fn locks(options: &WorkerOptions) -> Result<Locks, String> {
    match &options.client {
        Client::Plain { sentinels } => Ok(plain(options, sentinels)),
        Client::Redlock { urls, is_guarded } => {
            let guard = if *is_guarded { RestartGuard::Probation } else { RestartGuard::Off };
            let built = Redlock::builder()
                .nodes(urls)
                .ttl(TTL)
                .max_ttl(TTL)
                .node_timeout(NODE_TIMEOUT)
                .retry_delay(RETRY_DELAY)
                .key_prefix(PREFIX)
                .owner(format!("worker {}", options.worker))
                .restart_guard(guard)
                .clock(clock(options.worker))
                .build();
            built.map(Locks::Redlock).map_err(|error| error.to_string())
        }
    }
}

/// Creates a lock on one server: the master that a Sentinel reports when a connection is opened.
fn plain(options: &WorkerOptions, sentinels: &[SocketAddr]) -> Locks {
    let stream = u64::try_from(options.worker).expect("a small number");
    let settings = PlainOptions {
        ttl: PLAIN_TTL,
        node_timeout: PLAIN_TIMEOUT,
        prefix: PLAIN_PREFIX,
        lifetime: Some(LIFETIME),
        seed: options.seed ^ stream << 32,
    };
    let sentinels = sentinels.to_vec();
    let resolve = move || {
        let master = sentinels.iter().find_map(|&sentinel| master_by(sentinel));
        master.map(|master| format!("redis://{master}")).ok_or("no Sentinel answers".to_owned())
    };
    Locks::Plain(Arc::new(Plain::new([Box::new(resolve) as Url], settings)))
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
