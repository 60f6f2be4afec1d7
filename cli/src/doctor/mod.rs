//! `redlock doctor`: which nodes vote, why the others do not, and what to do.
//!
//! | to find | look in |
//! |---|---|
//! | the options | `args` |
//! | the diagnosis, and its exit code | `diagnose` |
//! | waiting until nodes vote | `wait` |
//! | trying everything over throw-away servers | `check`, `checks` |
//! | the report | `text`, `json` |

mod args;
mod check;
mod checks;
mod diagnose;
mod json;
mod text;
mod wait;

use std::process::ExitCode;

use tower_redlock::diagnosis::Diagnosis;

pub(crate) use self::{
    args::DoctorArgs,
    diagnose::{diagnose, exit_code},
    json::report as report_json,
    text::verdict,
    wait::{Until, default_timeout, kind, wait},
};
use self::{args::WaitFor, wait::wait_for};
use crate::{
    args::SharedArgs,
    exit::Failure,
    output::{Style, print, print_json},
    settings::Settings,
};

pub(crate) async fn run(shared: &SharedArgs, args: &DoctorArgs) -> Result<ExitCode, Failure> {
    let settings = Settings::new(shared)?;
    if args.check {
        return check::check(settings, shared.json).await;
    }
    let redlock = settings.build()?;
    let timeout = args.timeout.unwrap_or_else(|| default_timeout(settings.max_ttl()));
    let until = match &args.wait {
        None => None,
        Some(WaitFor::All) => Some(Until::All),
        Some(WaitFor::Quorum) => Some(Until::Quorum),
        Some(WaitFor::Node(node)) => {
            return wait_for(&redlock, node, &settings, shared, args).await;
        }
    };
    if let Some(until) = until {
        wait(&redlock, until, timeout).await;
    }
    let diagnosis = diagnose(&redlock, !args.no_probe).await;
    show(&diagnosis, &settings, shared.json)?;
    Ok(exit_code(diagnosis.verdict()).into())
}

/// Prints the report.
pub(crate) fn show(diagnosis: &Diagnosis, settings: &Settings, json: bool) -> Result<(), Failure> {
    if json {
        print_json(&json::report(diagnosis, settings))
    } else {
        print(&text::report(diagnosis, Style::stdout()))
    }
}
