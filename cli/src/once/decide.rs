//! Decisions of an operator about the work of a key.

use std::{process::ExitCode, time::Duration};

use serde_json::json;
use tower_redlock::Redlock;

use super::status::{look, object, text};
use crate::{
    exit::Failure,
    output::{confirm, print, print_json, say},
};

pub(super) async fn done(
    redlock: &Redlock,
    key: &str,
    retain: Option<Duration>,
    json: bool,
) -> Result<ExitCode, Failure> {
    let mut request = redlock.once(key);
    if let Some(retain) = retain {
        request = request.retain(retain);
    }
    let marked = request.mark_done().await;
    redlock.shutdown().await;
    if json {
        let error = marked.as_ref().err().map(ToString::to_string);
        print_json(&json!({ "key": key, "recorded": marked.is_ok(), "error": error }))?;
    }
    marked?;
    if !json {
        print(&format!("{key:?} is recorded as done: its work does not run again\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

const MEANING: &str = "\
Forgetting it removes the record from every server: the next request with this key runs the work again.
If the work is done, or was begun and had its effect, that effect happens twice.";

pub(super) async fn forget(
    redlock: &Redlock,
    key: &str,
    yes: bool,
    json: bool,
) -> Result<ExitCode, Failure> {
    let before = look(redlock, key, json).await?;
    let explained = format!("{}\n{MEANING}\n", text(key, before.as_ref()));
    if json {
        say(&explained);
    } else {
        print(&format!("{explained}\n"))?;
    }
    confirm(&format!("Forget {key:?}?"), yes).await?;

    let forgotten = redlock.once(key).forget().await;
    redlock.shutdown().await;
    if json {
        let error = forgotten.as_ref().err().map(ToString::to_string);
        let before = object(key, before.as_ref());
        let done = forgotten.as_ref().ok();
        print_json(&json!({ "before": before, "forgotten": done, "error": error }))?;
    }
    let existed = forgotten?;
    if !json {
        let said = if existed { "its record is removed" } else { "it had no record" };
        print(&format!("{key:?} is forgotten: {said}\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}
