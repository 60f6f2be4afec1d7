//! The options of `serve`, its course, and the users of its pages.

use std::{
    env,
    ffi::OsString,
    fs,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

use hyper::http::request::Parts;
use rustix::process::Signal;
use serde_json::json;
use tokio::time::timeout;
use tower_redlock_dashboard::{Access, Authorize, BasicAuth, Dashboard, by_address};

use super::{
    activity::Activity,
    server::{accept_until_signal, listen},
};
use crate::{
    exit::Failure,
    options::SharedArgs,
    output::{print, print_json_line, say},
    settings::Settings,
    signals::{self, Signals},
};

/// Limit for the end of the manager. Keys on a server that does not answer expire.
const SHUTDOWN: Duration = Duration::from_secs(1);

const PASSWORD: &str = "REDLOCK_SERVE_PASSWORD";

/// Serves web pages about the locks, servers and jobs of the fleet
///
/// Prints their address. Without --user, they are served on loopback only: every local user may read, and
/// no user may act. Ends with 0 by SIGINT, SIGTERM or SIGHUP. Logs actions on the standard error.
#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {
    /// Address to listen on; port 0 takes any free port
    #[arg(long, value_name = "ADDRESS", value_parser = address, default_value = "127.0.0.1:8700")]
    listen: SocketAddr,
    /// Serve only this user, with a password (Basic authentication); the user may also break locks and pause
    /// jobs
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// File whose first line is the password [default: the variable `REDLOCK_SERVE_PASSWORD`]
    #[arg(long, value_name = "FILE", requires = "user")]
    password_file: Option<PathBuf>,
    /// Allow no actions
    #[arg(long)]
    read_only: bool,
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
    let _ = timeout(SHUTDOWN, redlock.shutdown()).await;
    Ok(())
}

/// The users of the pages.
#[derive(Debug)]
enum Viewers {
    /// Every user of this machine may read.
    Local,
    /// One user, with a password.
    User(BasicAuth),
}

impl Viewers {
    /// Reads the password. Warns of a password that is not used or not encrypted.
    fn new(args: &ServeArgs) -> Result<Self, Failure> {
        let is_open = !is_loopback(args.listen);
        let Some(user) = &args.user else {
            if is_open {
                return Err(Failure::usage(format!(
                    "{} is not a loopback address: without a password, pages are served on loopback only. Give \
                     --user, and the password in --password-file or {PASSWORD}",
                    args.listen
                )));
            }
            if env::var_os(PASSWORD).is_some() {
                say(&format!("redlock: {PASSWORD} is not used without --user"));
            }
            return Ok(Self::Local);
        };
        if user.is_empty() || user.contains(':') || user.contains(char::is_control) {
            let message = "--user: a name is not empty, and has no colon and no control character";
            return Err(Failure::usage(message));
        }
        let password = match &args.password_file {
            Some(file) => of_file(file)?,
            None => of_variable(env::var_os(PASSWORD))?,
        };
        if is_open {
            say(&format!(
                "redlock: {} is not a loopback address: the password travels in the clear, unless a proxy in front \
                 adds TLS",
                args.listen
            ));
        }
        let access = if args.read_only { Access::ReadOnly } else { Access::All };
        Ok(Self::User(BasicAuth::new("redlock").user(user.as_str(), &password, access)))
    }

    /// Gives them access.
    fn admit(self, dashboard: Dashboard) -> Dashboard {
        match self {
            Self::Local => dashboard.access(noted(by_address(Access::ReadOnly))),
            Self::User(user) => dashboard.access(noted(user)),
        }
    }
}

/// Notes in the activity of a connection that a request has access.
fn noted(access: impl Authorize) -> impl Authorize {
    move |request: &Parts| {
        let viewer = access.viewer(request);
        if viewer.access() != Access::Forbidden
            && let Some(activity) = request.extensions.get::<Activity>()
        {
            activity.admit();
        }
        viewer
    }
}

fn is_loopback(address: SocketAddr) -> bool {
    // A loopback address of IPv4 within IPv6 is one, too.
    IpAddr::to_canonical(&address.ip()).is_loopback()
}

/// Returns the first line.
fn of_file(path: &Path) -> Result<String, Failure> {
    let shown = path.display();
    let text = fs::read_to_string(path);
    let text = text.map_err(|error| Failure::config(format!("{shown}: {error}")))?;
    match text.lines().next() {
        Some(password) if !password.is_empty() => Ok(password.to_owned()),
        _ => Err(Failure::usage(format!(
            "{shown}: the first line is empty; it must be the password"
        ))),
    }
}

fn of_variable(value: Option<OsString>) -> Result<String, Failure> {
    let Some(value) = value.filter(|value| !value.is_empty()) else {
        return Err(Failure::usage(format!(
            "no password for --user: give it in the first line of --password-file, or in {PASSWORD}"
        )));
    };
    let not_text = |_| Failure::usage(format!("{PASSWORD} is not UTF-8"));
    value.into_string().map_err(not_text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_addresses_are_known() {
        for address in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert!(is_loopback(address.parse().unwrap()), "{address}");
        }
        for address in ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "[::ffff:10.0.0.1]:1", "[fe80::1]:1"] {
            assert!(!is_loopback(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn missing_password_is_wrong_usage() {
        assert_eq!(of_variable(Some("pass word ".into())).unwrap(), "pass word ");
        for value in [None, Some(OsString::new())] {
            let failure = of_variable(value).unwrap_err();
            assert_eq!(failure.code, crate::exit::USAGE);
            assert!(failure.message.contains(PASSWORD), "{}", failure.message);
        }
    }
}
