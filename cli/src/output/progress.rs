//! Progress on the standard error: one line that is redrawn on a terminal, else a line for each change.

use std::{
    future::Future,
    io::{IsTerminal, Write, stderr},
    time::{Duration, Instant},
};

use super::{stderr::say, table::fit, terminal};

/// Interval between lines while nothing changes.
const LINE_INTERVAL: Duration = Duration::from_secs(5);
/// Time that work may take without a line.
const SILENT_TIME: Duration = Duration::from_secs(1);
const REDRAW_INTERVAL: Duration = Duration::from_millis(200);

/// The progress of something that takes longer than a second.
#[derive(Debug)]
pub(crate) struct Progress {
    begun: Instant,
    is_terminal: bool,
    /// Whether a line is on the terminal that the next one replaces.
    drawn: bool,
    last: Option<(String, Instant)>,
}

impl Progress {
    pub(crate) fn new() -> Self {
        let is_terminal = stderr().is_terminal();
        Self { begun: Instant::now(), is_terminal, drawn: false, last: None }
    }

    /// The progress of something that began this long ago.
    pub(crate) fn since(elapsed: Duration) -> Self {
        let mut this = Self::new();
        this.begun = this.begun.checked_sub(elapsed).unwrap_or(this.begun);
        this
    }

    pub(crate) const fn is_on_terminal(&self) -> bool {
        self.is_terminal
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Shows the time so far and a line. Without a terminal, only if `state` has changed, or after an
    /// interval.
    pub(crate) fn tell(&mut self, state: &str, line: &str) {
        let line = format!("{:5.1} s  {line}", self.elapsed().as_secs_f64());
        if self.is_terminal {
            let columns = terminal::size().columns;
            let _ = write!(stderr(), "\r\x1b[K{}", fit(&line, columns.saturating_sub(1)));
            let _ = stderr().flush();
            self.drawn = true;
            return;
        }
        let is_due =
            |(told, at): &(String, Instant)| told != state || at.elapsed() >= LINE_INTERVAL;
        if self.last.as_ref().is_none_or(is_due) {
            say(&line);
            self.last = Some((state.to_owned(), Instant::now()));
        }
    }

    /// Shows the line while the work takes longer than a moment.
    pub(crate) async fn during<T>(mut self, line: &str, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        let begun = tokio::time::Instant::now() + SILENT_TIME;
        let mut ticks = tokio::time::interval_at(begun, REDRAW_INTERVAL);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                _ = ticks.tick() => self.tell("", line),
            }
        }
    }

    /// Clears the line on the terminal.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.drawn) {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
