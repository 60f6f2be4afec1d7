//! The options of `run`.

/// Runs a command while a lock is held, and ends it before the lock can be another client's
#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// The command and its arguments, after `--`; no shell is involved
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<std::ffi::OsString>,
}
