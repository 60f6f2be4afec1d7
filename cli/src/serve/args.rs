//! The options of `serve`.

use std::{net::SocketAddr, path::PathBuf};

/// Serves web pages about the locks, servers and jobs of the fleet
///
/// Prints their address. Without --user, they are served on loopback only: every local user may read, and
/// no user may act. Ends with 0 by SIGINT, SIGTERM or SIGHUP. Logs actions on the standard error.
#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {
    /// Address to listen on; port 0 takes any free port
    #[arg(long, value_name = "ADDRESS", value_parser = address, default_value = "127.0.0.1:8700")]
    pub(super) listen: SocketAddr,
    /// Serve only this user, with a password (Basic authentication); the user may also break locks and pause
    /// jobs
    #[arg(long, value_name = "NAME")]
    pub(super) user: Option<String>,
    /// File whose first line is the password [default: the variable `REDLOCK_SERVE_PASSWORD`]
    #[arg(long, value_name = "FILE", requires = "user")]
    pub(super) password_file: Option<PathBuf>,
    /// Name under which a proxy passes requests on, in their Host header; may be repeated. On loopback, requests
    /// under other names than this and localhost are refused
    #[arg(long, value_name = "NAME", value_parser = host)]
    pub(super) host: Vec<String>,
    /// Allow no actions
    #[arg(long)]
    pub(super) read_only: bool,
    /// Maximum number of connections; at the limit, one that is idle ends for a new one, or the new one waits
    #[arg(long, value_name = "NUMBER", default_value_t = 1024, value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) max_connections: u16,
}

fn address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "expected an address such as 127.0.0.1:8700 or [::1]:8700")
}

/// Parses a name of `--host`.
fn host(text: &str) -> Result<String, &'static str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    let is_name = !text.is_empty() && text.chars().all(is_part);
    is_name.then(|| text.to_owned()).ok_or("expected a name without a port, such as locks.example")
}
