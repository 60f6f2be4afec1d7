//! The options of `status`, and the report that is printed once.

use std::{
    process::ExitCode,
    time::{Duration, SystemTime},
};

use serde_json::json;
use tower_redlock::diagnosis::{Diagnosis, NodeDiagnosis, Verdict};

use super::{
    listing::{Listing, node_table},
    watch::watch,
};
use crate::{
    client::Client,
    doctor::{verdict, with_commands},
    exit::{Failure, UNAVAILABLE},
    options::{SharedArgs, time},
};

/// Number of locks that are shown once.
const DEFAULT_LOCKS: usize = 10;
/// Number of locks that a live view reads.
const DEFAULT_WATCHED_LOCKS: usize = 200;

/// Shows the servers and the first locks, once or live
///
/// Exits with 69 without a quorum.
#[derive(Debug, clap::Args)]
pub(crate) struct StatusArgs {
    /// Show them live, until q or Ctrl-C
    ///
    /// Takes over the screen. Without a terminal, prints a block for each change; with --json, an object
    /// per line.
    #[arg(long)]
    watch: bool,
    /// Maximum number of locks to read [default: 10; with --watch 200]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16))]
    locks: Option<u16>,
    /// Time between two readings of the locks
    #[arg(long, value_name = "TIME", value_parser = interval, default_value = "1s", requires = "watch")]
    interval: Duration,
}

/// Parses an interval, which must not load the servers all the time.
fn interval(text: &str) -> Result<Duration, &'static str> {
    let time = time(text)?;
    if time < Duration::from_millis(100) { Err("100ms or more") } else { Ok(time) }
}

pub(crate) async fn status(shared: &SharedArgs, args: &StatusArgs) -> Result<ExitCode, Failure> {
    let client = Client::new(shared)?;
    let limit = args
        .locks
        .map_or(if args.watch { DEFAULT_WATCHED_LOCKS } else { DEFAULT_LOCKS }, usize::from);
    if args.watch {
        return watch(&client, limit, args.interval).await;
    }
    client.connected().await;
    let request = client.redlock.diagnosis().probe(false).connect_within(Duration::ZERO);
    let diagnosis = with_commands(request.await);
    let listing = Listing::read(&client.redlock, limit).await;
    // The number on the node that has the most.
    let keys = |node: &NodeDiagnosis| node.lock_keys.as_ref()?.as_ref().ok().copied();
    let keys = diagnosis.nodes.iter().filter_map(keys).max();
    let prefix = client.settings.prefix();
    let json = json!({
        "verdict": diagnosis.verdict().to_string(),
        "summary": diagnosis.summary(),
        "voting": diagnosis.voting(),
        "quorum": diagnosis.quorum(),
        "prefix": prefix,
        "nodes": diagnosis.nodes,
        "lock_keys": keys,
        "locks": listing.json(),
    });
    client.output.show(&json, &text(&diagnosis, &listing, prefix, keys))?;
    let works = diagnosis.verdict() != Verdict::NoQuorum;
    Ok(if works { ExitCode::SUCCESS } else { UNAVAILABLE.into() })
}

fn text(diagnosis: &Diagnosis, listing: &Listing, prefix: &str, keys: Option<u64>) -> String {
    let nodes = diagnosis.nodes.iter();
    let nodes = nodes.map(|node| (&*node.health.name, node.health.round_trip, node.state()));
    let keys = keys.map_or_else(|| "unknown".into(), |count| count.to_string());
    let mut text = vec![format!(
        "{}: {}\n\n{}\nlock keys under the prefix {prefix:?}: {keys}\n{}\n",
        verdict(diagnosis),
        diagnosis.summary(),
        node_table(nodes),
        listing.summary()
    )];
    let locks = listing.lock_table(SystemTime::now());
    if !locks.is_empty() {
        text.push(format!("\n{locks}"));
    }
    if let [summary, jobs @ ..] = &listing.job_lines()[..] {
        text.push(format!("\n{summary}\n\n{}\n", jobs.join("\n")));
    }
    text.concat()
}
