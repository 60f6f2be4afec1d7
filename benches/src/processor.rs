//! Processor time of processes, user and system together, of all their threads.

use std::{fs, time::Duration};

use rustix::time::{ClockId, clock_gettime};

use crate::servers::Servers;

/// Returns the processor time of this process.
pub(crate) fn own() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).expect("not negative"),
        u32::try_from(time.tv_nsec).expect("less than a second"),
    )
}

/// Returns the processor time of another process whose threads all still run, if the system has
/// `/proc/PID/task/*/schedstat`.
pub(crate) fn of(pid: u32) -> Option<Duration> {
    let mut total = Duration::ZERO;
    for thread in fs::read_dir(format!("/proc/{pid}/task")).ok()? {
        let text = fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        total += Duration::from_nanos(text.split(' ').next()?.parse().ok()?);
    }
    Some(total)
}

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
