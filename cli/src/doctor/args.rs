//! The options of `doctor`.

use std::{convert::Infallible, time::Duration};

use crate::args::time;

const EXIT_CODES: &str = "\
Exit codes:
   0  healthy
   1  degraded: locks work, but something needs attention; after --wait NODE: another server must not \
be restarted; of --check: a check failed
   2  no quorum: no locks at present

Failures have those of the other commands: 64 wrong usage, 78 wrong or missing settings.";

/// Examines the servers: which of them vote, why the others do not, and what to do
///
/// A server without any data of the set is enrolled by this, as by any client: give the right settings.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct DoctorArgs {
    /// Keep running until all nodes vote, a quorum does, or NODE votes again as all clients see it
    ///
    /// A probation ends only while some client runs. Wait for NODE between the restarts of two servers,
    /// when the restart of the first has been done.
    #[arg(
        long,
        value_name = "all|quorum|NODE",
        num_args = 0..=1,
        default_missing_value = "all",
        value_parser = WaitFor::parse
    )]
    pub(crate) wait: Option<WaitFor>,
    /// How long --wait waits [default: 60s, more where a probation takes longer]
    #[arg(long, value_name = "TIME", value_parser = time, requires = "wait")]
    pub(crate) timeout: Option<Duration>,
    /// Do not ask each node for its vote on a new name, nor try the commands that need a permission
    #[arg(long)]
    pub(crate) no_probe: bool,
    /// Try everything over throw-away servers, or without any over embedded nodes, under the prefix
    /// doctor-check
    #[arg(long, conflicts_with = "wait")]
    pub(crate) check: bool,
}

/// Which nodes have to vote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WaitFor {
    All,
    Quorum,
    Node(String),
}

impl WaitFor {
    #[expect(clippy::unnecessary_wraps, reason = "as clap wants its parsers")]
    fn parse(text: &str) -> Result<Self, Infallible> {
        Ok(match text {
            "all" => Self::All,
            "quorum" => Self::Quorum,
            node => Self::Node(node.to_owned()),
        })
    }
}
