//! The holder of a name, and taking the lock away from it.

use std::{
    error::Error,
    fmt::Write,
    process::ExitCode,
    time::{Duration, SystemTime},
};

use humantime_serde::re::humantime::format_rfc3339_seconds;
use serde_json::json;
use tower_redlock::{
    LockError, Redlock,
    error::{Reason, ReleaseError, VoteOutcome},
    lock::{Holder, Released},
};

use crate::{args::Args, confirm::confirm, diagnose::NO_QUORUM, json, text::time, wait::settle};

/// Number of tries while a node is too busy to answer.
const TRIES: usize = 5;
const PAUSE: Duration = Duration::from_millis(100);

/// Asks again until every node has answered, a few times.
pub(crate) async fn inspect(redlock: &Redlock, name: &str) -> Result<Option<Holder>, LockError> {
    let mut result = redlock.inspect(name).await;
    for _ in 1..TRIES {
        let incomplete = match &result {
            Ok(Some(holder)) => holder
                .votes
                .iter()
                .any(|vote| matches!(vote.outcome, VoteOutcome::NotCounted(Reason::TimedOut))),
            Ok(None) => false,
            Err(error) => matches!(error, LockError::NoQuorum { .. }),
        };
        if !incomplete {
            break;
        }
        tokio::time::sleep(PAUSE).await;
        result = redlock.inspect(name).await;
    }
    result
}

/// `--resource`
pub(crate) async fn show(
    redlock: &Redlock,
    name: &str,
    args: &Args,
) -> Result<ExitCode, Box<dyn Error>> {
    match look(redlock, name, args).await? {
        Ok(holder) if args.json => println!("{:#}", json::holder(name, holder.as_ref())),
        Ok(holder) => print!("{}", describe(name, holder.as_ref())),
        Err(code) => return Ok(code),
    }
    Ok(ExitCode::SUCCESS)
}

/// `--break`
pub(crate) async fn take_away(
    redlock: &Redlock,
    name: &str,
    args: &Args,
) -> Result<ExitCode, Box<dyn Error>> {
    let holder = match look(redlock, name, args).await? {
        Ok(Some(holder)) => holder,
        Ok(None) => {
            if args.json {
                println!("{:#}", json!({ "before": json::holder(name, None), "result": "free" }));
            } else {
                println!("{name:?} is free: there is nothing to break");
            }
            return Ok(ExitCode::SUCCESS);
        }
        Err(code) => return Ok(code),
    };
    let explained = format!("{}\n{MEANING}\n", describe(name, Some(&holder)));
    if args.json {
        eprint!("{explained}");
    } else {
        print!("{explained}");
    }
    let owner = holder.owner.as_deref().unwrap_or("a foreign key");
    confirm(&format!("Take {name:?} away from {owner}?"), args.yes).await?;

    let (result, said, code) = match redlock.revoke(&holder).await {
        Ok(Released::AlreadyLost) => (
            "gone",
            "the holder had already lost it; no other holder was affected".into(),
            ExitCode::SUCCESS,
        ),
        Ok(_) => ("broken", "deleted on a quorum of nodes".into(), ExitCode::SUCCESS),
        Err(error @ ReleaseError::Foreign) => ("foreign", error.to_string(), ExitCode::from(1)),
        Err(error) => ("no quorum", error.to_string(), ExitCode::from(NO_QUORUM)),
    };
    let after = inspect(redlock, name).await;
    if args.json {
        let after = match &after {
            Ok(after) => json::holder(name, after.as_ref()),
            Err(error) => json::unknown(name, error),
        };
        let before = json::holder(name, Some(&holder));
        println!(
            "{:#}",
            json!({ "before": before, "result": result, "text": said, "after": after })
        );
    } else {
        println!("{said}");
        match &after {
            Ok(Some(next)) if next.is_quorum => {
                print!("now: {}", describe(name, Some(next)));
            }
            Ok(_) => println!("now: {name:?} is free"),
            Err(error) => println!("the holder is unknown now: {error}"),
        }
    }
    Ok(code)
}

const MEANING: &str = "\
Breaking it deletes that holder's keys and no others. If the holder is dead, the name is free at
once. If it is alive, it continues to work as if it held the lock: until its next renewal, which
takes the lock back if it is still free, or else at most until its validity ends. Meanwhile two may
work at the same time, and only fencing tokens keep them apart. If you are not sure that it is dead,
stop it, or wait until its lock expires.";

/// Returns the holder, or the exit code where too few nodes answered.
async fn look(
    redlock: &Redlock,
    name: &str,
    args: &Args,
) -> Result<Result<Option<Holder>, ExitCode>, Box<dyn Error>> {
    settle(redlock).await;
    match inspect(redlock, name).await {
        Ok(holder) => Ok(Ok(holder)),
        Err(error @ LockError::NoQuorum { .. }) => {
            if args.json {
                println!("{:#}", json::unknown(name, &error));
            } else {
                println!("the holder of {name:?} is unknown: {error}");
            }
            Ok(Err(ExitCode::from(NO_QUORUM)))
        }
        Err(error) => Err(error.into()),
    }
}

fn describe(name: &str, holder: Option<&Holder>) -> String {
    let Some(holder) = holder else { return format!("{name:?} is free\n") };
    let owner = holder.owner.as_deref().unwrap_or("a key that tower-redlock did not write");
    let mut text = if holder.is_quorum {
        format!("{name:?} is held by {owner}\n")
    } else {
        format!(
            "{name:?} is not held; fewer than a quorum of nodes have a key of {owner}: of an attempt under way, or left by a crash\n"
        )
    };
    if let Some(since) = holder.since {
        let ago = SystemTime::now().duration_since(since).unwrap_or_default();
        // Writing to a string does not fail.
        let at = format_rfc3339_seconds(since);
        let _ = writeln!(text, "    since {at}, {} ago by the holder's clock", time(ago));
    }
    match holder.remaining {
        Some(left) => {
            let _ = writeln!(text, "    free in {} unless it is renewed", time(left));
        }
        None => text.push_str("    without a TTL: it stays until it is deleted\n"),
    }
    match holder.token.get() {
        0 => text.push_str("    without a fencing token\n"),
        token => {
            let _ = writeln!(text, "    fencing token {token}");
        }
    }
    for vote in holder.votes.iter() {
        let _ = match &vote.outcome {
            VoteOutcome::NotCounted(Reason::KeyGone) => writeln!(text, "    {}: no key", vote.node),
            _ => writeln!(text, "    {vote}"),
        };
    }
    text
}
