//! Whether the servers know a job: a command for a misspelt name must not look like a success.

use futures_util::StreamExt as _;
use tower_redlock::LockError;

use crate::{
    client::Client,
    exit::{self, Failure},
    output::shown,
};

/// Maximum number of names that a message lists.
const MAX_NAMES: usize = 5;

/// Returns whether the servers know the job: a replica has run a tick of it, or it is paused.
pub(super) async fn is_known(client: &Client, job: &str) -> Result<bool, LockError> {
    let redlock = &client.redlock;
    Ok(redlock.job_schedule(job).await?.is_some()
        || !redlock.job_history(job).await?.is_empty()
        || redlock.job_control(job).await?.paused.is_some())
}

/// Checks that the servers know the job. `otherwise` says what to do if its name is right.
pub(super) async fn check(client: &Client, job: &str, otherwise: &str) -> Result<(), Failure> {
    if is_known(client, job).await? { Ok(()) } else { Err(unknown(client, job, otherwise).await) }
}

/// Returns the failure of a command for an unknown job, with the names of known ones.
pub(super) async fn unknown(client: &Client, job: &str, otherwise: &str) -> Failure {
    let names = client.redlock.claimed_jobs().take(MAX_NAMES + 1).collect::<Vec<_>>().await;
    let names: Vec<_> = names.into_iter().flatten().map(|name| shown(&name)).collect();
    let (first, more) = (names.iter().take(MAX_NAMES), names.len() > MAX_NAMES);
    let mut known = first.cloned().collect::<Vec<_>>().join(", ");
    if more {
        known += ", …";
    }
    let known =
        if known.is_empty() { "they know none".into() } else { format!("they know {known}") };
    let message = format!(
        "the servers know no job {job:?}: no replica has run a tick of it ({known}){otherwise}"
    );
    Failure::new(exit::UNKNOWN, message)
}
