//! Signals: forwarded to the command while it runs; before that they end the wait for the lock.

use std::{
    io::{self, IsTerminal, stdin},
    sync::Arc,
};

use rustix::{
    process::{Signal, getpgrp},
    termios::tcgetpgrp,
};
use tokio::sync::watch;

use super::messages::{Order, Sender};
use crate::signals::{Signals, is_ignored};

/// The signals that are forwarded.
pub(super) const FORWARDED: [Signal; 9] = [
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::TERM,
    Signal::USR1,
    Signal::USR2,
    Signal::ALARM,
    Signal::CONT,
    Signal::WINCH,
];

/// Parses `TERM` or `SIGTERM`.
pub(super) fn parse(text: &str) -> Result<Signal, &'static str> {
    let upper = text.to_ascii_uppercase();
    Ok(match upper.strip_prefix("SIG").unwrap_or(&upper) {
        "HUP" => Signal::HUP,
        "INT" => Signal::INT,
        "QUIT" => Signal::QUIT,
        "KILL" => Signal::KILL,
        "TERM" => Signal::TERM,
        "USR1" => Signal::USR1,
        "USR2" => Signal::USR2,
        "ALRM" => Signal::ALARM,
        _ => return Err("expected one of HUP, INT, QUIT, KILL, TERM, USR1, USR2, ALRM"),
    })
}

/// Returns whether the default action of the signal ends a process.
pub(super) fn terminates(signal: Signal) -> bool {
    signal != Signal::CONT && signal != Signal::WINCH
}

/// Receives this process's signals from its start on.
pub(super) struct SignalRouter(Arc<watch::Sender<Target>>);

/// Where signals go.
enum Target {
    /// The first one ends the wait for the lock.
    Wait { first: Option<Signal> },
    /// The command.
    Command {
        orders: Sender,
        /// The command is in the process group of this process.
        shares_group: bool,
    },
    /// The command's first process has ended. The first signal ends what this process still waits for.
    End { first: Option<Signal> },
}

impl SignalRouter {
    pub(super) fn start() -> io::Result<Self> {
        let signals = Signals::new(FORWARDED.into_iter().filter(|signal| !is_ignored(*signal)))?;
        let target = Arc::new(watch::Sender::new(Target::Wait { first: None }));
        tokio::spawn(forward(signals, Arc::clone(&target)));
        Ok(Self(target))
    }

    /// Waits for a signal that comes before the command is started.
    pub(super) async fn interrupted(&self) -> Signal {
        self.first(|target| if let Target::Wait { first } = target { *first } else { None }).await
    }

    /// Waits for a signal that comes after the command's first process has ended.
    pub(super) async fn hurried(&self) -> Signal {
        self.first(|target| if let Target::End { first } = target { *first } else { None }).await
    }

    async fn first(&self, of: impl Fn(&Target) -> Option<Signal>) -> Signal {
        let mut targets = self.0.subscribe();
        loop {
            if let Some(signal) = of(&targets.borrow_and_update()) {
                return signal;
            }
            // Fails without a sender, and this is one.
            let _ = targets.changed().await;
        }
    }

    /// Starts the command, and forwards signals from then on. No signal is handled between the two.
    ///
    /// # Errors
    ///
    /// The signal that came before: nothing was started.
    pub(super) fn start_command(
        &self,
        orders: Sender,
        start: &Order,
    ) -> Result<io::Result<()>, Signal> {
        let mut started = Ok(Ok(()));
        self.0.send_modify(|target| {
            let Target::Wait { first } = target else { panic!("the command is started once") };
            started = first.map_or_else(|| Ok(orders.send(start)), Err);
            if let Ok(Ok(())) = started {
                // Until the start is reported.
                *target = Target::Command { orders, shares_group: false };
            }
        });
        started
    }

    /// Notes that the command has started: in its foreground group it gets a terminal's signals.
    pub(super) fn note_started(&self, in_own_group: bool) {
        self.0.send_modify(|target| {
            assert!(!matches!(target, Target::Wait { .. }), "a command was ordered to start");
            if let Target::Command { shares_group, .. } = target {
                *shares_group = !in_own_group;
            }
        });
    }

    /// Forwards no more signals: the command has ended.
    pub(super) fn end_command(&self) {
        self.0.send_modify(|target| {
            if !matches!(target, Target::End { .. }) {
                *target = Target::End { first: None };
            }
        });
    }
}

/// Returns whether the signal came from the terminal, which sends it to the whole foreground group.
fn is_of_terminal(signal: Signal) -> bool {
    [Signal::INT, Signal::QUIT, Signal::WINCH].contains(&signal)
        && stdin().is_terminal()
        && tcgetpgrp(stdin()).is_ok_and(|group| group == getpgrp())
}

async fn forward(mut signals: Signals, target: Arc<watch::Sender<Target>>) {
    loop {
        let signal = signals.recv().await;
        target.send_if_modified(|target| match target {
            Target::Command { shares_group: true, .. } if is_of_terminal(signal) => false,
            Target::Command { orders, .. } => {
                // If the watchdog has ended, the command ends as well.
                let _ = orders.send(&Order::Signal(signal.as_raw()));
                false
            }
            Target::Wait { first } | Target::End { first } => {
                let is_first = first.is_none() && terminates(signal);
                if is_first {
                    *first = Some(signal);
                }
                is_first
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_names() {
        assert_eq!(parse("TERM"), Ok(Signal::TERM));
        assert_eq!(parse("sigint"), Ok(Signal::INT));
        assert!(parse("STOP").unwrap_err().contains("HUP, INT"));
    }
}
