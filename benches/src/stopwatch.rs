//! The processor time of a measurement: of this process, and of the servers.

use std::time::Duration;

use crate::{processor::own, servers::Servers};

/// The times at the beginning of a measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch {
    client: Duration,
    servers: Option<Duration>,
}

/// The processor time of a measurement, in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Used {
    /// Time of this process, including the benchmark's own work.
    pub(crate) client: f64,
    /// Time of all servers together.
    pub(crate) servers: Option<f64>,
}

impl Stopwatch {
    pub(crate) fn start(servers: &Servers) -> Self {
        Self { client: own(), servers: servers.processor_time() }
    }

    pub(crate) fn stop(self, servers: &Servers) -> Used {
        let used = |before: Option<Duration>, after: Option<Duration>| {
            Some(after?.saturating_sub(before?).as_secs_f64())
        };
        Used {
            client: own().saturating_sub(self.client).as_secs_f64(),
            servers: used(self.servers, servers.processor_time()),
        }
    }
}
