//! `redlock inspect`: the holder of a name, node by node.

use std::process::ExitCode;

use super::holder::{look, show};
use crate::{args::SharedArgs, exit::Failure, settings::Settings, settle::settle};

/// Shows the holder of a name, node by node
///
/// The lock of a job, a leader or a once key has a name that begins with `job:`, `leader:` or `once:`.
#[derive(Debug, clap::Args)]
pub(crate) struct InspectArgs {
    name: String,
}

pub(crate) async fn inspect(shared: &SharedArgs, args: &InspectArgs) -> Result<ExitCode, Failure> {
    let redlock = Settings::new(shared)?.build()?;
    settle(&redlock).await;
    let holder = look(&redlock, &args.name, shared.json).await?;
    show(&args.name, holder.as_ref(), shared.json)?;
    Ok(ExitCode::SUCCESS)
}
