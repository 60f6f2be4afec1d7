//! The options of every command, and the parsers of their values.

use std::{
    path::PathBuf,
    time::{Duration, SystemTime},
};

use clap::ArgAction;

/// The options of every command.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct SharedArgs {
    /// TOML file with settings as `tower_redlock::Config` reads them
    #[arg(long, global = true, value_name = "FILE", help_heading = "Settings")]
    pub(crate) config: Option<PathBuf>,
    /// Independent servers, separated by commas: [NAME=]redis://host:port; several sets, separated by
    /// semicolons
    #[arg(long, global = true, value_name = "URLS", help_heading = "Settings")]
    pub(crate) nodes: Option<String>,
    /// Prefix of the keys on the servers [default: redlock]
    #[arg(long, global = true, value_name = "PREFIX", help_heading = "Settings")]
    pub(crate) prefix: Option<String>,
    /// Time that a lock outlives a client that crashed [default: 10s]
    #[arg(long, global = true, value_name = "TIME", value_parser = time, help_heading = "Settings")]
    pub(crate) ttl: Option<Duration>,
    /// Longest TTL of all clients, and length of the probation of a server that restarted
    /// [default: the TTL]
    #[arg(long, global = true, value_name = "TIME", value_parser = time, help_heading = "Settings")]
    pub(crate) max_ttl: Option<Duration>,
    /// Whether servers that restarted wait before they vote [default: probation]
    #[arg(long, global = true, value_name = "WHAT", value_parser = ["probation", "off"], help_heading = "Settings")]
    pub(crate) restart_guard: Option<String>,
    /// One or two servers are intended: no warning about them
    #[arg(long, global = true, help_heading = "Settings")]
    pub(crate) accept_few_servers: bool,
    /// Print JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Log on the standard error: -v what happens, -vv every request
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,
}

/// Parses a duration. The error does not repeat the text, which may be a URL with a password.
pub(crate) fn time(text: &str) -> Result<Duration, &'static str> {
    humantime::parse_duration(text).map_err(|_| "expected a duration such as 10s, 250ms or 1h")
}

/// Parses a date and time, with an offset from UTC or without.
pub(crate) fn moment(text: &str) -> Result<SystemTime, &'static str> {
    let with_offset = text.parse::<jiff::Timestamp>().map(SystemTime::from);
    let time = with_offset.or_else(|_| humantime::parse_rfc3339_weak(text));
    time.map_err(|_| "expected a time such as 2026-03-01T03:00:00Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_have_offsets_or_not() {
        let three = humantime::parse_rfc3339("2026-03-01T03:00:00Z").unwrap();
        for text in ["2026-03-01T03:00:00Z", "2026-03-01T04:00:00+01:00", "2026-03-01 03:00:00"] {
            assert_eq!(moment(text), Ok(three), "{text}");
        }
        assert!(moment("soon").is_err() && moment("2026-03-01").is_err());
    }
}
