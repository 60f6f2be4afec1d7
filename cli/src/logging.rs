//! What the library logs, on the standard error.

use std::io::{IsTerminal, stderr};

use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, WorkerGuard};
use tracing_subscriber::filter::LevelFilter;

use crate::{
    args::{Args, Command},
    output::say,
};

/// Ends the log: prints what is left, and says what was dropped.
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

/// Logs warnings while a command runs under a lock, the actions of those whom pages are served, and more with
/// `-v`. From a thread of its own: a standard error that nobody reads must not keep a lock from being extended.
pub(crate) fn start(args: &Args) -> Log {
    let level = match (args.shared.verbose, &args.command) {
        (0, Command::Run(_)) => LevelFilter::WARN,
        (0, Command::Serve(_)) | (1, _) => LevelFilter::INFO,
        (0, _) => LevelFilter::OFF,
        (2.., _) => LevelFilter::DEBUG,
    };
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
