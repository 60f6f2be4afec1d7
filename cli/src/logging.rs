//! What the library logs, on the standard error.

use std::io::{IsTerminal, stderr};

use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, WorkerGuard};
use tracing_subscriber::filter::LevelFilter;

use crate::output::say;

/// Ends the log: prints what is left, and the number of dropped lines.
#[derive(Debug)]
pub(crate) struct Log {
    worker: Option<WorkerGuard>,
    dropped: ErrorCounter,
}

impl Drop for Log {
    fn drop(&mut self) {
        drop(self.worker.take());
        match self.dropped.dropped_lines() {
            0 => {}
            lines => say(&format!("redlock: {lines} lines of the log were not printed in time")),
        }
    }
}

/// Prints events up to this level, from a thread of its own: a blocked standard error must not keep a lock
/// from being extended.
pub(crate) fn start(level: LevelFilter) -> Log {
    let (writer, worker) = NonBlocking::new(stderr());
    let dropped = writer.error_counter();
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(writer)
        .with_ansi(stderr().is_terminal())
        .with_target(false)
        .init();
    Log { worker: Some(worker), dropped }
}
