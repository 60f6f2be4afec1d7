//! `redlock run`: a command that runs only while its lock is held.

mod args;

use std::process::ExitCode;

pub(crate) use self::args::RunArgs;
use crate::{args::SharedArgs, exit::Failure, settings::Settings};

/// Does the part of a process that `run` starts from this program, if this is one.
pub(crate) fn helper() -> Option<ExitCode> {
    None
}

pub(crate) async fn run(shared: &SharedArgs, _args: &RunArgs) -> Result<ExitCode, Failure> {
    let _redlock = Settings::new(shared)?.build()?;
    Err(Failure::software("not yet"))
}
