//! `redlock jobs forget`: removes what the servers keep of jobs that no replica has any more.

use std::time::Duration;

use futures_util::TryStreamExt as _;
use humantime::format_rfc3339_seconds;
use serde_json::{Value, json};
use tower_redlock::scheduler::{ControlError, UnusedJob};

use super::steer::failure;
use crate::{
    client::Client,
    exit::Failure,
    output::{confirm, error_text, print_json_line, say, shown},
};

const MEANING: &str = "\
Forgetting it removes from every server which tick was run last, the history and a pause. A replica that still has
the job takes it for a new one.";

pub(super) async fn forget(client: &Client, job: &str, yes: bool) -> Result<(), Failure> {
    client.output.explain(MEANING)?;
    confirm(&format!("Forget {job:?}?"), yes).await?;
    let forgotten = client.redlock.forget_job(job).await;
    client.output.show_json(&object(job, &forgotten))?;
    let existed = forgotten.map_err(failure)?;
    let said = if existed { "is forgotten" } else { "was not known to the servers" };
    client.output.show_text(&format!("{job:?} {said}\n"))
}

pub(super) async fn forget_unused(
    client: &Client,
    unused_for: Duration,
    yes: bool,
) -> Result<(), Failure> {
    let (redlock, output) = (&client.redlock, client.output);
    let unused: Vec<UnusedJob> = redlock.unused_jobs(unused_for).try_collect().await?;
    if unused.is_empty() {
        return output.show_text("no job has been unused for that time\n");
    }
    for job in &unused {
        let since = format_rfc3339_seconds(job.since);
        let doubt = if job.is_certain { "" } else { "; its next tick is not known" };
        output.show_text(&format!("{} unused since {since}{doubt}\n", shown(&job.name)))?;
    }
    output.show_text(&format!("\n{MEANING}\n\n"))?;
    confirm(&format!("Forget these {} jobs?", unused.len()), yes).await?;
    let mut failed = None;
    let mut number = 0;
    for job in unused {
        let forgotten = redlock.forget_unused_job(&job.name, unused_for).await;
        if output.json {
            print_json_line(&object(&job.name, &forgotten))?;
        }
        match forgotten {
            Ok(existed) => number += u32::from(existed),
            Err(error) => {
                say(&format!("redlock: {error}"));
                failed = Some(error);
            }
        }
    }
    output.show_text(&format!("{number} forgotten\n"))?;
    failed.map_or(Ok(()), |error| Err(failure(error)))
}

fn object(job: &str, forgotten: &Result<bool, ControlError>) -> Value {
    let error = error_text(forgotten);
    json!({ "job": job, "forgotten": forgotten.as_ref().ok(), "error": error })
}
