//! Lowering the `max_ttl` that the servers keep.

use std::{error::Error, process::ExitCode};

use serde_json::json;
use tower_redlock::{Redlock, error::LowerError};

use crate::{args::Args, examine::settle, setup::Settings, text::time, verdict::Verdict};

pub(crate) async fn lower(
    redlock: &Redlock,
    settings: &Settings,
    args: &Args,
) -> Result<ExitCode, Box<dyn Error>> {
    if settings.embedded {
        return Err("--lower-max-ttl needs servers: REDLOCK_NODES or --config".into());
    }
    settle(redlock).await;
    let to = time(settings.max_ttl);
    let longest = redlock.health().iter().filter_map(|node| node.max_ttl).max();
    if let Some(longest) = longest.filter(|longest| *longest > settings.max_ttl) {
        let from = time(longest);
        eprintln!(
            "lowering max_ttl from {from} to {to}: longer TTLs are refused from now on; waiting for {from}, until all locks that have one have expired"
        );
    }
    let lowered = redlock.lower_max_ttl().await;
    if args.json {
        let error = lowered.as_ref().err().map(ToString::to_string);
        println!("{:#}", json!({ "lowered": lowered.is_ok(), "error": error }));
    } else {
        match &lowered {
            Ok(()) => println!("max_ttl is {to} at most on all {} nodes", redlock.nodes().len()),
            Err(error) => println!("{error}; what is lowered stays so: run it again for the rest"),
        }
    }
    match lowered {
        Ok(()) => Ok(Verdict::Healthy.exit()),
        Err(LowerError::Incomplete { .. }) => Ok(Verdict::Degraded.exit()),
        Err(error) => Err(error.into()),
    }
}
