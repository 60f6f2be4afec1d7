//! `redlock break`: taking a lock away from its holder.

use std::process::ExitCode;

use serde_json::json;
use tower_redlock::{Redlock, error::ReleaseError, lock::Released};

use super::holder::{ask, holder_json, look, text, unknown_json};
use crate::{
    args::SharedArgs,
    exit::{FOREIGN, Failure, UNAVAILABLE, USAGE},
    output::{confirm, print, print_json, say, shown},
    settings::Settings,
    settle::settle,
};

/// Takes a lock away from its holder, after a confirmation
///
/// Only for holders that are known to be dead. Shows the holder first; deletes that holder's keys, and
/// no later one's.
#[derive(Debug, clap::Args)]
pub(crate) struct BreakArgs {
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

/// What became of the holder's keys.
struct Revoked {
    result: &'static str,
    said: String,
    code: u8,
}

impl From<Result<Released, ReleaseError>> for Revoked {
    fn from(released: Result<Released, ReleaseError>) -> Self {
        let (result, said, code) = match released {
            Ok(Released::AlreadyLost) => {
                ("gone", "the holder had already lost it; no other holder was affected".into(), 0)
            }
            Ok(_) => ("broken", "deleted on a quorum of nodes".into(), 0),
            Err(error @ ReleaseError::Foreign) => ("foreign", error.to_string(), FOREIGN),
            Err(error @ ReleaseError::InvalidResource(_)) => ("invalid", error.to_string(), USAGE),
            Err(error) => ("no quorum", error.to_string(), UNAVAILABLE),
        };
        Self { result, said, code }
    }
}

pub(crate) async fn take_away(shared: &SharedArgs, args: &BreakArgs) -> Result<ExitCode, Failure> {
    let redlock = Settings::new(shared)?.build()?;
    settle(&redlock).await;
    let name = &args.name;
    let Some(holder) = look(&redlock, name, shared.json).await? else {
        if shared.json {
            print_json(&json!({ "before": holder_json(name, None), "result": "free" }))?;
        } else {
            print(&format!("{name:?} is free: there is nothing to break\n"))?;
        }
        return Ok(ExitCode::SUCCESS);
    };
    let explained = format!("{}\n{MEANING}\n", text(name, Some(&holder)));
    if shared.json {
        say(&explained);
    } else {
        print(&format!("{explained}\n"))?;
    }
    let owner = holder.owner.as_deref().map_or_else(|| "a foreign key".into(), shown);
    confirm(&format!("Take {name:?} away from {owner}?"), args.yes).await?;

    let revoked = Revoked::from(redlock.revoke(&holder).await);
    if shared.json {
        let after = match ask(&redlock, name).await {
            Ok(after) => holder_json(name, after.as_ref()),
            Err(error) => unknown_json(name, &error),
        };
        let before = holder_json(name, Some(&holder));
        let Revoked { result, said, .. } = &revoked;
        print_json(&json!({ "before": before, "result": result, "text": said, "after": after }))?;
    } else {
        print(&format!("{}\n{}", revoked.said, now(&redlock, name).await))?;
    }
    Ok(ExitCode::from(revoked.code))
}

/// Describes the holder afterwards.
async fn now(redlock: &Redlock, name: &str) -> String {
    match ask(redlock, name).await {
        Ok(Some(next)) if next.is_quorum => format!("now: {}", text(name, Some(&next))),
        Ok(_) => format!("now: {name:?} is free\n"),
        Err(error) => format!("the holder is unknown now: {error}\n"),
    }
}
