//! The confirmation of actions that cannot be undone.

use std::{
    io::{IsTerminal, Write, stderr, stdin},
    time::Duration,
};

use tokio::{task::spawn_blocking, time::timeout};

use crate::exit::Failure;

const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);

/// Asks for a confirmation.
///
/// # Errors
///
/// A usage failure if the answer is not yes, or without a terminal.
pub(crate) async fn confirm(question: &str, yes: bool) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !stdin().is_terminal() {
        return Err(Failure::usage(
            "not confirmed, and nothing was done: there is no terminal to ask; --yes confirms",
        ));
    }
    // With a closed standard error the question stays unanswered.
    let _ = write!(stderr(), "{question} Type yes: ");
    // On a thread that may outlive the timeout.
    let answer = spawn_blocking(|| stdin().lines().next());
    let is_yes = |line: &str| line.trim().eq_ignore_ascii_case("yes");
    match timeout(ANSWER_TIMEOUT, answer).await {
        Ok(Ok(Some(Ok(line)))) if is_yes(&line) => Ok(()),
        Ok(_) => Err(Failure::usage("not confirmed, and nothing was done")),
        Err(_) => Err(Failure::usage(format!(
            "not confirmed within {ANSWER_TIMEOUT:?}, and nothing was done"
        ))),
    }
}
