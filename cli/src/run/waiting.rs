//! The reason of a long wait, on the standard error.

use std::{cell::RefCell, time::Duration};

use tokio::time::{sleep, timeout};

use crate::output::{Progress, say, shown};

/// Time that a wait may take without a line.
const SILENT_TIME: Duration = Duration::from_secs(2);
/// Interval between updates of the time on a terminal.
const REDRAW_INTERVAL: Duration = Duration::from_millis(200);
/// Limit for finding out the reason.
const REASON_TIMEOUT: Duration = Duration::from_secs(2);

/// The wait of a process, from its start to the start of its command. `None` once nothing more is printed.
#[derive(Debug)]
pub(super) struct Waiting(RefCell<Option<Progress>>);

impl Waiting {
    pub(super) fn new(is_quiet: bool) -> Self {
        Self(RefCell::new((!is_quiet).then(Progress::new)))
    }

    /// Prints nothing more. Ends the line on the terminal, before the command writes there.
    pub(super) fn end(&self) {
        self.0.take();
    }

    /// Waits. After [`SILENT`], prints the reason: once, or on a terminal with the time so far.
    pub(super) async fn during<T>(
        &self,
        wait: impl Future<Output = T>,
        reason: impl AsyncFn() -> String,
    ) -> T {
        let tell = async {
            sleep(SILENT_TIME).await;
            let line = line(reason()).await;
            if let Some(progress) = &mut *self.0.borrow_mut() {
                *progress = Progress::since(SILENT_TIME);
            }
            while self.tell(&line) {
                sleep(REDRAW_INTERVAL).await;
            }
        };
        let mut wait = std::pin::pin!(wait);
        let done = tokio::select! {
            biased;
            done = &mut wait => done,
            () = tell => wait.await,
        };
        if let Some(progress) = &mut *self.0.borrow_mut() {
            progress.clear();
        }
        done
    }

    /// Prints the line, or updates its time. Returns whether there is more to show.
    fn tell(&self, line: &str) -> bool {
        match &mut *self.0.borrow_mut() {
            None => false,
            Some(progress) if progress.is_on_terminal() => {
                progress.tell("", line);
                true
            }
            Some(_) => {
                say(line);
                false
            }
        }
    }
}

/// Returns the line with the reason, also if servers that do not answer keep it from being found out.
async fn line(reason: impl Future<Output = String>) -> String {
    let reason = timeout(REASON_TIMEOUT, reason).await;
    let reason = reason.unwrap_or_else(|_| "servers, which do not answer".into());
    format!("redlock: waiting for {}", shown(&reason))
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn unknown_reason_is_said() {
        let known = line(async { "a, held by b".into() }).await;
        assert_eq!(known, "redlock: waiting for a, held by b");
        assert_eq!(line(pending()).await, "redlock: waiting for servers, which do not answer");
    }
}
