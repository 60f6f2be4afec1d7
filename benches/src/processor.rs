//! Processor time of processes, user and system together, of all their threads.

use std::{fs, time::Duration};

use rustix::time::{ClockId, clock_gettime};

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
