//! `redlock serve`: web pages about the locks, servers and jobs of a fleet, without a service.
//!
//! | to find | look in |
//! |---|---|
//! | who may see and do what, and the password | `viewers` |
//! | connections, and their end | `server` |
//! | connections that are idle | `activity` |

mod activity;
mod server;
mod viewers;

use std::{net::SocketAddr, path::PathBuf, process::ExitCode, time::Duration};

use serde_json::json;
use tokio::time::timeout;
use tower_redlock_dashboard::Dashboard;

use self::viewers::Viewers;
use crate::{
    args::SharedArgs,
    exit::Failure,
    output::{print, print_json_line},
    settings::Settings,
    signals::EndSignals,
};

/// Limit for the end of the manager. Keys on a server that does not answer expire.
const SHUTDOWN: Duration = Duration::from_secs(1);

/// Serves web pages about the locks, servers and jobs of the fleet
///
/// Prints their address. Without --user, everybody who reaches them may read, nobody may act, and they are
/// served on loopback only. Ends with 0 by SIGINT, SIGTERM or SIGHUP. Logs actions on the standard error.
#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {
    /// Where to listen; port 0 takes any free port
    #[arg(long, value_name = "ADDRESS", value_parser = address, default_value = "127.0.0.1:8700")]
    listen: SocketAddr,
    /// Only for this user, with a password (Basic authentication), who may also act: break locks, pause jobs
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// A file whose first line is the password; without it, the variable `REDLOCK_SERVE_PASSWORD` has it
    #[arg(long, value_name = "FILE", requires = "user")]
    password_file: Option<PathBuf>,
    /// Allow no actions
    #[arg(long)]
    read_only: bool,
    /// Connections at a time; further ones wait
    #[arg(long, value_name = "NUMBER", default_value_t = 1024, value_parser = clap::value_parser!(u16).range(1..))]
    max_connections: u16,
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "no address like 127.0.0.1:8700 or [::1]:8700".into())
}

pub(crate) async fn serve(shared: &SharedArgs, args: &ServeArgs) -> Result<ExitCode, Failure> {
    let viewers = Viewers::new(args)?;
    let redlock = Settings::new(shared)?.build()?;
    // Before the address is known: from then on a signal ends it in order.
    let mut signals = EndSignals::of_server();
    let listener = server::listen(args.listen).await?;
    let address = listener.local_addr();
    let address = address.map_err(|error| Failure::system(format!("the listener: {error}")))?;
    let dashboard = viewers.admit(Dashboard::new(redlock.clone()));
    let url = format!("http://{address}/");
    if shared.json {
        print_json_line(&json!({ "url": url }))?;
    } else {
        print(&format!("{url}\n"))?;
    }
    server::serve(listener, args.max_connections.into(), dashboard, &mut signals).await;
    let _ = timeout(SHUTDOWN, redlock.shutdown()).await;
    Ok(ExitCode::SUCCESS)
}
