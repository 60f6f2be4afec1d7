//! Asking before something is done that can't be undone.

use std::{
    io::{IsTerminal, stdin},
    thread,
    time::Duration,
};

use tokio::sync::oneshot;

const PATIENCE: Duration = Duration::from_secs(120);

/// Whether the person wants it; an error where there is nobody to ask.
pub(crate) async fn confirm(question: &str, yes: bool) -> Result<(), String> {
    if yes {
        return Ok(());
    }
    if !stdin().is_terminal() {
        return Err(
            "not confirmed, and nothing was done: there is no terminal to ask; --yes confirms"
                .into(),
        );
    }
    eprint!("{question} Type yes: ");
    let (sender, receiver) = oneshot::channel();
    // A thread of its own: nobody waits for it when the time is over.
    thread::spawn(move || {
        let mut line = String::new();
        let read = stdin().read_line(&mut line);
        let _ = sender.send(read.is_ok() && line.trim().eq_ignore_ascii_case("yes"));
    });
    match tokio::time::timeout(PATIENCE, receiver).await {
        Ok(Ok(true)) => Ok(()),
        Ok(_) => Err("not confirmed, and nothing was done".into()),
        Err(_) => Err(format!("not confirmed within {PATIENCE:?}, and nothing was done")),
    }
}
