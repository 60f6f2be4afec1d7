//! What a wait is for, on the standard error, once it takes long.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::{sleep, timeout};

use crate::output::{Progress, say, shown};

/// Time that a wait may take without a line.
const SILENT: Duration = Duration::from_secs(2);
/// Interval between looks at the clock on a terminal.
const TICK: Duration = Duration::from_millis(200);
/// Limit for finding out what the wait is for.
const ASK: Duration = Duration::from_secs(2);

/// The wait of a process, from its start to the start of its command.
#[derive(Debug)]
pub(super) struct Waiting(Mutex<State>);

#[derive(Debug)]
enum State {
    /// Nothing was said yet.
    Silent,
    /// A line is on the terminal.
    Shown(Progress),
    /// Nothing is to be said.
    Over,
}

impl Waiting {
    pub(super) const fn new(is_quiet: bool) -> Self {
        Self(Mutex::new(if is_quiet { State::Over } else { State::Silent }))
    }

    /// Ends the line on the terminal, before the command writes there.
    pub(super) fn end(&self) {
        *self.state() = State::Over;
    }

    /// Waits, and says after [`SILENT`] what for: once, or on a terminal with a clock that runs.
    pub(super) async fn during<T>(
        &self,
        wait: impl Future<Output = T>,
        what: impl AsyncFn() -> String,
    ) -> T {
        let tell = async {
            sleep(SILENT).await;
            let Ok(what) = timeout(ASK, what()).await else { return };
            let line = format!("redlock: waiting for {}", shown(&what));
            while self.tell(&line) {
                sleep(TICK).await;
            }
        };
        let done = {
            let mut wait = std::pin::pin!(wait);
            tokio::select! {
                biased;
                done = &mut wait => done,
                () = tell => wait.await,
            }
        };
        let mut state = self.state();
        if matches!(&*state, State::Shown(_)) {
            *state = State::Silent;
        }
        done
    }

    /// Says it, or shows how long it has taken; returns whether there is more to show.
    fn tell(&self, line: &str) -> bool {
        let mut state = self.state();
        match &mut *state {
            State::Over => return false,
            State::Silent => {
                let progress = Progress::since(SILENT);
                if !progress.is_on_terminal() {
                    say(line);
                    return false;
                }
                *state = State::Shown(progress);
            }
            State::Shown(_) => {}
        }
        if let State::Shown(progress) = &mut *state {
            progress.tell("", line);
        }
        true
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
