//! Changes of the set: servers that move to another configuration, and a lower `max_ttl`.

use std::{error::Error, fmt::Write, process::ExitCode, time::Duration};

use serde_json::json;
use tower_redlock::{
    Redlock,
    error::{AdoptError, LowerError},
    node::EmbeddedNodes,
};

use crate::{
    args::{Args, Until},
    confirm::confirm,
    diagnose::{DEGRADED, NO_QUORUM, diagnose, exit_code},
    json,
    setup::{Settings, Setup},
    text::{self, time},
    wait::{self, settle},
};

/// Time that the wait may take beyond the probation.
const MARGIN: Duration = Duration::from_secs(30);
/// Limit for each node of both sets, one after the other. Each has 2 s for an answer.
const PER_NODE: Duration = Duration::from_secs(3);

pub(crate) async fn adopt(
    setup: &Setup,
    new: &Redlock,
    args: &Args,
) -> Result<ExitCode, Box<dyn Error>> {
    let old = setup.changed(&args.from)?;
    if setup.is_embedded() || old.is_embedded() {
        return Err("--adopt needs servers: the new set's in REDLOCK_NODES or --config, the old set's in --from".into());
    }
    let old = old.build(&EmbeddedNodes::new(1))?;
    settle(&old).await;
    settle(new).await;
    eprintln!("from the old set:\n{}to the new set:\n{}\n{MEANING}\n", nodes(&old), nodes(new));
    confirm("Move the servers?", args.yes).await?;

    let bound = PER_NODE * u32::try_from(old.nodes().len() + new.nodes().len()).unwrap_or(100);
    let moved = tokio::time::timeout(bound, new.adopt(&old)).await;
    let takes = match moved {
        Ok(Ok(takes)) => takes,
        Ok(Err(error)) => return Ok(failed(&error, args)),
        Err(_) => return Err(format!("no end within {bound:?}; run it again").into()),
    };
    // Its connections are of no use: the servers belong to the new set now.
    drop(old);
    eprintln!("step 3: moved; the new set votes in {}\n{AFTER}", time(takes));
    wait::wait(new, Until::Moved, args.timeout.unwrap_or(takes + MARGIN)).await;
    let diagnosis = diagnose(new, args.probe).await;
    if args.json {
        let report = json::report(&diagnosis, &setup.settings());
        println!("{:#}", json!({ "adopted": true, "report": report }));
    } else {
        print!("{}", text::report(&diagnosis));
    }
    Ok(exit_code(diagnosis.verdict()).into())
}

fn failed(error: &AdoptError, args: &Args) -> ExitCode {
    if args.json {
        println!("{:#}", json!({ "adopted": false, "error": error.to_string() }));
    } else {
        println!("not adopted: {error}");
    }
    match error {
        // Some nodes may have moved: the sets may be without a quorum now.
        AdoptError::OldSet { .. } | AdoptError::NewSet { .. } => ExitCode::from(NO_QUORUM),
        _ => ExitCode::from(crate::USAGE_ERROR),
    }
}

const MEANING: &str = "\
step 1: all nodes of the old set vote (above): those that can't be reached keep the old set.
step 2: programs with the new configuration may run beside the old ones, and are not ready yet. If a
        majority of the new servers is blank, start them after step 3.
step 3: now. Adopting stops the old set first: clients with the old configuration get no more locks,
        and the locks that they hold are not renewed. Then every node of the new set begins
        a probation, with the old nodes' fences; nobody gets a lock until it is over: one max_ttl.
        It can be run again if it fails half-way.
step 4: programs with the new configuration are ready; stop those with the old one.";

const AFTER: &str = "\
step 4: start the programs with the new configuration where they don't run yet, and stop those with
        the old one: they get no more locks";

fn nodes(redlock: &Redlock) -> String {
    let mut text = String::new();
    for node in redlock.health() {
        // Writing to a string does not fail.
        let _ = writeln!(text, "    {node}");
    }
    text
}

/// `--lower-max-ttl`
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
            Err(error) => {
                println!("{error}; the nodes that took it keep it: run it again for the rest");
            }
        }
    }
    match lowered {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(LowerError::Incomplete { .. }) => Ok(DEGRADED.into()),
        Err(error) => Err(error.into()),
    }
}
