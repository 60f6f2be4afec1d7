//! `redlock break`: taking a lock away from its holder.

use std::process::ExitCode;

use serde_json::json;
use tower_redlock::{Resource, error::ReleaseError, lock::Released};

use super::{
    holder::{ask, holder_json, holder_of, text, unknown_json},
    readers::owners,
};
use crate::{
    client::Client,
    exit::{FOREIGN, Failure, UNAVAILABLE, UNKNOWN, USAGE},
    options::SharedArgs,
    output::confirm,
};

/// Takes a lock away from its holder, after a confirmation
///
/// Use it only if the holder is known to be dead. Shows the holder first, and deletes only its keys. Slot 3 of
/// `export` is the lock `slot:3:export`. A shared lock is taken away from all its holders. Exits with 66 if the
/// name is free.
#[derive(Debug, clap::Args)]
pub(crate) struct BreakArgs {
    /// The name of the lock
    name: String,
    /// Confirm; required without a terminal
    #[arg(long)]
    yes: bool,
}

const MEANING: &str = "\
Breaking it deletes that holder's keys and no others. If the holder is dead, the name is free at
once. If it is alive, it continues to work as if it held the lock: until its next renewal, which
takes the lock back if it is still free, or else at most until its validity ends. Meanwhile two may
work at the same time, and only fencing tokens keep them apart. If you are not sure that it is dead,
stop it, or wait until its lock expires.";

const MEANING_IF_SHARED: &str = "\
Breaking it deletes the keys of all its readers, also of those that acquire it meanwhile. A reader that
is alive continues to work as if it held the lock: until its next renewal, which takes the lock back
unless an exclusive holder was faster, or else at most until its validity ends.";

pub(crate) async fn take_away(shared: &SharedArgs, args: &BreakArgs) -> Result<ExitCode, Failure> {
    let client = Client::settled(shared).await?;
    let (redlock, output, name) = (&client.redlock, client.output, &args.name);
    let shown = Resource::display_name(name);
    let Some(holder) = holder_of(&client, name).await? else {
        output.show(
            &json!({ "before": holder_json(name, None), "result": "free" }),
            &format!("{shown:?} is free: there is nothing to break\n"),
        )?;
        return Ok(UNKNOWN.into());
    };
    let meaning = if holder.is_shared() { MEANING_IF_SHARED } else { MEANING };
    output.explain(&format!("{}\n{meaning}", text(name, Some(&holder))))?;
    let owner = owners(&holder, "a foreign key");
    confirm(&format!("Take {shown:?} away from {owner}?"), args.yes).await?;

    let (result, said, code) = match redlock.revoke(&holder).await {
        Ok(Released::AlreadyLost) => {
            ("gone", "the holder had already lost it; no other holder was affected".into(), 0)
        }
        Ok(_) => ("broken", "deleted on a quorum of nodes".into(), 0),
        Err(error @ ReleaseError::Foreign) => ("foreign", error.to_string(), FOREIGN),
        Err(error @ ReleaseError::InvalidResource(_)) => ("invalid", error.to_string(), USAGE),
        Err(error) => ("no quorum", error.to_string(), UNAVAILABLE),
    };
    let (after, now) = match ask(redlock, name).await {
        Ok(after) => {
            let text = match after.as_ref().filter(|next| next.is_quorum) {
                None => format!("now: {shown:?} is free\n"),
                next => format!("now: {}", text(name, next)),
            };
            (holder_json(name, after.as_ref()), text)
        }
        Err(error) => (unknown_json(name, &error), format!("the holder is unknown now: {error}\n")),
    };
    let before = holder_json(name, Some(&holder));
    output.show(
        &json!({ "before": before, "result": result, "text": said, "after": after }),
        &format!("{said}\n{now}"),
    )?;
    Ok(ExitCode::from(code))
}
