//! All keys of which the servers keep a record.

use std::process::ExitCode;

use futures_util::TryStreamExt;
use serde_json::json;
use tower_redlock::Redlock;

use crate::{
    exit::Failure,
    glob::Glob,
    output::{print, print_json_line, say, shown},
};

pub(super) async fn ls(redlock: &Redlock, glob: &Glob, json: bool) -> Result<ExitCode, Failure> {
    let mut keys = std::pin::pin!(redlock.once_keys());
    loop {
        match keys.try_next().await {
            Ok(Some(key)) if !glob.matches(&key) => {}
            Ok(Some(key)) if json => print_json_line(&json!({ "key": &*key }))?,
            Ok(Some(key)) => print(&format!("{}\n", shown(&key)))?,
            Ok(None) => return Ok(ExitCode::SUCCESS),
            Err(error) => {
                say("redlock: keys may be missing from this list");
                return Err(error.into());
            }
        }
    }
}
