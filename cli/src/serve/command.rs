//! The options of `serve`, and its course.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use serde_json::json;
use tokio::time::timeout;
use tower_redlock_dashboard::Dashboard;

use super::{
    server::{accept_until_signal, listen},
    viewers::Viewers,
};
use crate::{
    exit::Failure,
    options::SharedArgs,
    output::{print, print_json_line},
    settings::Settings,
    signals::{self, Signals},
};

/// Limit for the end of the manager. Keys on a server that does not answer expire.
const SHUTDOWN: Duration = Duration::from_secs(1);

/// Serves web pages about the locks, servers and jobs of the fleet
///
/// Prints their address. Without --user, they are served on loopback only: every local user may read, and
/// no user may act. Ends with 0 by SIGINT, SIGTERM or SIGHUP. Logs actions on the standard error.
#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {
    /// Where to listen; port 0 takes any free port
    #[arg(long, value_name = "ADDRESS", value_parser = address, default_value = "127.0.0.1:8700")]
    pub(super) listen: SocketAddr,
    /// Only for this user, with a password (Basic authentication), who may also act: break locks, pause jobs
    #[arg(long, value_name = "NAME")]
    pub(super) user: Option<String>,
    /// A file whose first line is the password; without it, the variable `REDLOCK_SERVE_PASSWORD` has it
    #[arg(long, value_name = "FILE", requires = "user")]
    pub(super) password_file: Option<PathBuf>,
    /// Allow no actions
    #[arg(long)]
    pub(super) read_only: bool,
    /// Connections at a time; further ones wait
    #[arg(long, value_name = "NUMBER", default_value_t = 1024, value_parser = clap::value_parser!(u16).range(1..))]
    max_connections: u16,
}

fn address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "expected an address such as 127.0.0.1:8700 or [::1]:8700")
}

pub(crate) async fn serve(shared: &SharedArgs, args: &ServeArgs) -> Result<(), Failure> {
    let viewers = Viewers::new(args)?;
    let redlock = Settings::new(shared)?.build()?;
    // Before the address is printed: from then on a signal ends the program in order.
    let mut signals = Signals::unless_ignored(signals::END)?;
    let listener = listen(args.listen).await?;
    let url = format!("http://{}/", listener.local_addr()?);
    let dashboard = viewers.admit(Dashboard::new(redlock.clone()));
    if shared.json {
        print_json_line(&json!({ "url": url }))?;
    } else {
        print(&format!("{url}\n"))?;
    }
    accept_until_signal(listener, args.max_connections.into(), dashboard, &mut signals).await;
    let _ = timeout(SHUTDOWN, redlock.shutdown()).await;
    Ok(())
}
