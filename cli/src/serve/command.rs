//! The options of `serve`, and its course.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use rustix::process::Signal;
use serde_json::json;
use tokio::time::timeout;
use tower_redlock_dashboard::Dashboard;

use super::{
    server::{accept_until_signal, listen},
    viewers::{Viewers, host},
};
use crate::{
    exit::Failure,
    options::SharedArgs,
    output::{print, print_json_line},
    settings::Settings,
    signals::{self, Signals},
};

/// Limit for the end of the manager. Keys on a server that does not answer expire.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

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
    max_connections: u16,
}

fn address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "expected an address such as 127.0.0.1:8700 or [::1]:8700")
}

pub(crate) async fn serve(shared: &SharedArgs, args: &ServeArgs) -> Result<(), Failure> {
    let viewers = Viewers::new(args)?;
    let redlock = Settings::new(shared)?.build()?;
    // A hangup that was ignored at the start stays so.
    let is_heard = |signal: &Signal| *signal != Signal::HUP || !signals::is_ignored(*signal);
    // Before the address is printed: from then on a signal ends the program in order.
    let mut signals = Signals::new(signals::END.into_iter().filter(is_heard))?;
    let listener = listen(args.listen).await?;
    let url = format!("http://{}/", listener.local_addr()?);
    let dashboard = viewers.admit(Dashboard::new(redlock.clone()));
    if shared.json {
        print_json_line(&json!({ "url": url }))?;
    } else {
        print(&format!("{url}\n"))?;
    }
    accept_until_signal(listener, args.max_connections.into(), dashboard, &mut signals).await;
    let _ = timeout(SHUTDOWN_TIMEOUT, redlock.shutdown()).await;
    Ok(())
}
