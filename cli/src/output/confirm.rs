//! The confirmation of actions that cannot be undone.

use std::{
    io::{IsTerminal, Write, stderr, stdin},
    thread,
    time::Duration,
};

use tokio::sync::oneshot;

use crate::exit::Failure;

const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);

/// Asks for a confirmation.
///
/// # Errors
///
/// A failure of usage without one, and where there is no terminal.
pub(crate) async fn confirm(question: &str, yes: bool) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !stdin().is_terminal() {
        return Err(Failure::usage(
            "not confirmed, and nothing was done: there is no terminal to ask; --yes confirms",
        ));
    }
    // Where the standard error is closed, nobody reads the question, and nobody answers.
    let _ = write!(stderr(), "{question} Type yes: ");
    let (sender, receiver) = oneshot::channel();
    // On a thread that may outlive the timeout.
    thread::spawn(move || {
        let mut line = String::new();
        let read = stdin().read_line(&mut line);
        let _ = sender.send(read.is_ok() && line.trim().eq_ignore_ascii_case("yes"));
    });
    match tokio::time::timeout(ANSWER_TIMEOUT, receiver).await {
        Ok(Ok(true)) => Ok(()),
        Ok(_) => Err(Failure::usage("not confirmed, and nothing was done")),
        Err(_) => Err(Failure::usage(format!(
            "not confirmed within {ANSWER_TIMEOUT:?}, and nothing was done"
        ))),
    }
}
