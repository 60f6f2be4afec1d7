//! The users of the pages, and what they may do.

use std::{
    env,
    ffi::OsString,
    fs,
    net::{IpAddr, SocketAddr},
    path::Path,
};

use tower_redlock_dashboard::{Access, BasicAuth, Dashboard, by_address};

use super::command::ServeArgs;
use crate::{exit::Failure, output::say};

const PASSWORD: &str = "REDLOCK_SERVE_PASSWORD";

/// The users of the pages.
#[derive(Debug)]
pub(super) enum Viewers {
    /// Every user of this machine may read.
    Local,
    /// One user, with a password.
    User(BasicAuth),
}

impl Viewers {
    /// Reads the password. Warns of a password that is not used or not encrypted.
    pub(super) fn new(args: &ServeArgs) -> Result<Self, Failure> {
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
    pub(super) fn admit(self, dashboard: Dashboard) -> Dashboard {
        match self {
            Self::Local => dashboard.access(by_address(Access::ReadOnly)),
            Self::User(user) => dashboard.access(user),
        }
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
