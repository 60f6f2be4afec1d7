//! `redlock lower-max-ttl`: a lower `max_ttl` on the servers.

use std::process::ExitCode;

use serde_json::json;
use tower_redlock::error::LowerError;

use crate::{
    args::SharedArgs,
    exit::{CONFIG, Failure, UNAVAILABLE},
    output::{Progress, print, print_json, say, time},
    settings::Settings,
    settle::settle,
};

pub(crate) async fn lower(shared: &SharedArgs) -> Result<ExitCode, Failure> {
    let settings = Settings::new(shared)?;
    let redlock = settings.build()?;
    settle(&redlock).await;
    let max_ttl = settings.max_ttl();
    let to = time(max_ttl);
    let longest = redlock.health().iter().filter_map(|node| node.max_ttl).max();
    if let Some(longest) = longest.filter(|longest| *longest > max_ttl) {
        let from = time(longest);
        say(&format!(
            "lowering max_ttl from {from} to {to}: longer TTLs are refused from now on; waiting for {from}, until all locks that have one have expired"
        ));
    }
    let waiting = "waiting until locks with a longer TTL have expired";
    let lowered = Progress::new().during(waiting, redlock.lower_max_ttl()).await;
    if shared.json {
        let error = lowered.as_ref().err().map(ToString::to_string);
        print_json(&json!({ "lowered": lowered.is_ok(), "error": error }))?;
    }
    match lowered {
        Ok(()) if shared.json => Ok(ExitCode::SUCCESS),
        Ok(()) => {
            let nodes = redlock.nodes().len();
            print(&format!("max_ttl is {to} at most on all {nodes} nodes\n"))?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error @ LowerError::Incomplete { .. }) => {
            let rest = "the nodes that took it keep it: run it again for the rest";
            Err(Failure::new(UNAVAILABLE, format!("{error}; {rest}")))
        }
        Err(error) => Err(Failure::new(CONFIG, error.to_string())),
    }
}
