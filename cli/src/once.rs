//! `redlock once`: what the servers keep of work that is done once, and decisions about it by hand.

use std::time::Duration;

use clap::Subcommand;
use futures_util::TryStreamExt;
use humantime::format_rfc3339_seconds;
use serde_json::{Value, json};
use tower_redlock::{
    LockError,
    once::{OnceState, OnceStatus},
};

use crate::{
    client::Client,
    exit::{Failure, UNKNOWN},
    glob::Glob,
    options::{SharedArgs, time},
    output::{
        age, confirm, error_text, indented, millis, print, print_json_line, say, short, shown,
        shown_or, unix_millis,
    },
};

/// Shows and changes what the servers keep of work that is done once per key
#[derive(Debug, clap::Args)]
pub(crate) struct OnceArgs {
    #[command(subcommand)]
    command: OnceCommand,
}

#[derive(Debug, Subcommand)]
enum OnceCommand {
    /// Shows whether the work is done, in progress, or has an unknown outcome
    ///
    /// Restores the record of done work on servers that lost it.
    Status {
        /// The key, as `once ls` lists it: of a request behind a layer, layer:LAYER:KEY
        key: String,
    },
    /// Records that the work is done, without running it
    ///
    /// Use it if the effect of the work was found. Fails with 75 while the work runs.
    Done {
        /// The key, as `once ls` lists it: of a request behind a layer, layer:LAYER:KEY
        key: String,
        /// How long the record is kept [default: 4 days]
        #[arg(long, value_name = "TIME", value_parser = time)]
        retain: Option<Duration>,
    },
    /// Removes the record, after a confirmation: the next request runs the work again
    ///
    /// Every server has to answer. Fails with 75 while the work runs.
    Forget {
        /// The key, as `once ls` lists it: of a request behind a layer, layer:LAYER:KEY
        key: String,
        /// Confirm; required without a terminal
        #[arg(long)]
        yes: bool,
    },
    /// Lists the keys of which the servers keep a record
    ///
    /// Prints one object per line with --json.
    Ls {
        /// Only keys that match: * is any text, ? is any character, \ takes the next one as it is
        #[arg(default_value = "*")]
        glob: Glob,
    },
}

pub(crate) async fn once(shared: &SharedArgs, args: &OnceArgs) -> Result<(), Failure> {
    let client = match &args.command {
        OnceCommand::Status { .. } | OnceCommand::Ls { .. } => Client::reading(shared).await?,
        _ => Client::settled(shared).await?,
    };
    match &args.command {
        OnceCommand::Status { key } => {
            let status = status_of(&client, key).await?;
            client.output.show(&object(key, status.as_ref()), &text(key, status.as_ref()))
        }
        OnceCommand::Done { key, retain } => done(&client, key, *retain).await,
        OnceCommand::Forget { key, yes } => forget(&client, key, *yes).await,
        OnceCommand::Ls { glob } => ls(&client, glob).await,
    }
}

async fn done(client: &Client, key: &str, retain: Option<Duration>) -> Result<(), Failure> {
    let mut request = client.redlock.once_key(key);
    if let Some(retain) = retain {
        request = request.retain(retain);
    }
    let marked = request.mark_done().await;
    client.redlock.shutdown().await;
    let error = error_text(&marked);
    client.output.show_json(&json!({ "key": key, "recorded": error.is_none(), "error": error }))?;
    marked?;
    client.output.show_text(&format!("{key:?} is recorded as done: its work does not run again\n"))
}

const MEANING: &str = "\
Forgetting it removes the record from every server: the next request with this key runs the work again.
If the work is done, or was begun and had its effect, that effect happens twice.";

async fn forget(client: &Client, key: &str, yes: bool) -> Result<(), Failure> {
    let before = status_of(client, key).await?;
    client.output.explain(&format!("{}\n{MEANING}", text(key, before.as_ref())))?;
    confirm(&format!("Forget {key:?}?"), yes).await?;

    let forgotten = client.redlock.once_key(key).forget().await;
    client.redlock.shutdown().await;
    let (before, error) = (object(key, before.as_ref()), error_text(&forgotten));
    let existed = forgotten.as_ref().ok();
    client.output.show_json(&json!({ "before": before, "forgotten": existed, "error": error }))?;
    if !forgotten? {
        let message = format!("{key:?} had no record: see `redlock once ls '*{key}*'`");
        return Err(Failure::new(UNKNOWN, message));
    }
    client.output.show_text(&format!("{key:?} is forgotten: its record is removed\n"))
}

async fn ls(client: &Client, glob: &Glob) -> Result<(), Failure> {
    let mut keys = std::pin::pin!(client.redlock.once_keys());
    loop {
        match keys.try_next().await {
            Ok(Some(key)) if !glob.matches(&key) => {}
            Ok(Some(key)) if client.output.json => print_json_line(&json!({ "key": &*key }))?,
            Ok(Some(key)) => print(&format!("{}\n", shown(&key)))?,
            Ok(None) => return Ok(()),
            Err(error) => {
                say("redlock: keys may be missing from this list");
                return Err(error.into());
            }
        }
    }
}

/// Asks for the status. Prints that it is unknown if too few nodes answered.
async fn status_of(client: &Client, key: &str) -> Result<Option<OnceStatus>, Failure> {
    let status = client.redlock.once_key(key).status().await;
    if let Err(error @ LockError::NoQuorum { .. }) = &status {
        let unknown = json!({ "key": key, "state": null, "error": error.to_string() });
        client.output.show_json(&unknown)?;
    }
    Ok(status?)
}

fn object(key: &str, status: Option<&OnceStatus>) -> Value {
    let Some(status) = status else { return json!({ "key": key, "state": "free" }) };
    json!({
        "key": key,
        "state": match status.state {
            OnceState::InProgress => "in-progress",
            OnceState::Done => "done",
            _ => "unknown",
        },
        "by": status.by.as_deref(),
        "since_unix_ms": status.since.and_then(unix_millis),
        "remaining_ms": status.remaining.map(millis),
        "token": status.token.get(),
    })
}

fn text(key: &str, status: Option<&OnceStatus>) -> String {
    let Some(status) = status else {
        return format!(
            "{key:?} is free: no run of it was recorded as done. It was never begun, has failed, or has crashed; the \
             key of a request behind a layer is layer:LAYER:KEY: see `redlock once ls '*{key}*'`\n"
        );
    };
    let (state, by, end) = match status.state {
        OnceState::InProgress => {
            ("is in progress", "run by", "its lock ends unless it is renewed,")
        }
        OnceState::Done => ("is done", "done by", "is forgotten"),
        _ => ("was begun, and its outcome is unknown", "begun by", "is forgotten"),
    };
    let owner = format!("{by} {}", shown_or(status.by.as_deref(), "an unknown client"));
    let since = status.since.map(|since| {
        let at = format_rfc3339_seconds(since);
        format!("since {at}, {} ago by that client's clock", short(age(since)))
    });
    let end = status.remaining.map(|remaining| format!("{end} in {}", short(remaining)));
    let token = (status.token.get() != 0).then(|| format!("fencing token {}", status.token));
    let lines = [Some(owner), since, end, token];
    format!("{key:?} {state}\n{}", indented(lines.into_iter().flatten()))
}
