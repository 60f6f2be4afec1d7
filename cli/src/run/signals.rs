//! Signals: forwarded to the command while it runs; before that they end the wait for the lock.

use std::{
    future::poll_fn,
    io::{self, IsTerminal, stdin},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Poll,
};

use rustix::{
    process::{Signal, getpgrp},
    termios::tcgetpgrp,
};
use tokio::{
    signal::unix::{self, SignalKind},
    sync::watch,
};

use super::messages::{Order, Sender};
use crate::signals::is_ignored;

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

const NAMES: [(&str, Signal); 8] = [
    ("HUP", Signal::HUP),
    ("INT", Signal::INT),
    ("QUIT", Signal::QUIT),
    ("KILL", Signal::KILL),
    ("TERM", Signal::TERM),
    ("USR1", Signal::USR1),
    ("USR2", Signal::USR2),
    ("ALRM", Signal::ALARM),
];

/// Parses `TERM` or `SIGTERM`.
pub(super) fn parse(text: &str) -> Result<Signal, String> {
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let found = NAMES.iter().find(|(of, _)| *of == name).map(|(_, signal)| *signal);
    let known = || NAMES.map(|(name, _)| name).join(", ");
    found.ok_or_else(|| format!("not one of {}", known()))
}

/// Whether a process that does not handle the signal ends by it.
pub(super) fn terminates(signal: Signal) -> bool {
    signal != Signal::CONT && signal != Signal::WINCH
}

/// Receives this process's signals from its start on.
pub(super) struct Signals {
    target: Arc<Mutex<Target>>,
    /// The first signal that came before the command.
    interrupted: watch::Receiver<Option<Signal>>,
    /// The first signal that came after it.
    hurried: watch::Receiver<Option<Signal>>,
}

/// Where signals go.
enum Target {
    /// To nobody: they end the wait for the lock.
    Waiting,
    Command {
        orders: Sender,
        /// It is in the process group of this process.
        shares_group: bool,
    },
    /// To nobody: they end what this process still waits for.
    Ended,
}

impl Signals {
    pub(super) fn start() -> io::Result<Self> {
        let mut streams = Vec::with_capacity(FORWARDED.len());
        for signal in FORWARDED {
            if !is_ignored(signal) {
                streams.push((signal, unix::signal(SignalKind::from_raw(signal.as_raw()))?));
            }
        }
        let target = Arc::new(Mutex::new(Target::Waiting));
        let (interrupt, interrupted) = watch::channel(None);
        let (hurry, hurried) = watch::channel(None);
        tokio::spawn(forward(streams, Arc::clone(&target), interrupt, hurry));
        Ok(Self { target, interrupted, hurried })
    }

    /// Waits for a signal that comes before the command is started.
    pub(super) async fn interrupted(&self) -> Signal {
        first(self.interrupted.clone()).await
    }

    /// Waits for a signal that comes after the command's first process has ended.
    pub(super) async fn hurried(&self) -> Signal {
        first(self.hurried.clone()).await
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
        let mut target = lock(&self.target);
        if let Some(signal) = *self.interrupted.borrow() {
            return Err(signal);
        }
        let started = orders.send(start);
        if started.is_ok() {
            // Until it is known to be in the group.
            *target = Target::Command { orders, shares_group: false };
        }
        Ok(started)
    }

    /// The command has started: what a terminal sends to its foreground group reaches it.
    pub(super) fn note_started(&self, in_own_group: bool) {
        if let Target::Command { shares_group, .. } = &mut *lock(&self.target) {
            *shares_group = !in_own_group;
        }
    }

    /// Forwards no more signals: the command has ended.
    pub(super) fn end_command(&self) {
        *lock(&self.target) = Target::Ended;
    }
}

async fn first(mut signals: watch::Receiver<Option<Signal>>) -> Signal {
    loop {
        if let Some(signal) = *signals.borrow_and_update() {
            return signal;
        }
        if signals.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Whether the signal came from the terminal, which sends it to the whole foreground group.
fn is_of_terminal(signal: Signal) -> bool {
    [Signal::INT, Signal::QUIT, Signal::WINCH].contains(&signal)
        && stdin().is_terminal()
        && tcgetpgrp(stdin()).is_ok_and(|group| group == getpgrp())
}

async fn forward(
    mut streams: Vec<(Signal, unix::Signal)>,
    target: Arc<Mutex<Target>>,
    interrupt: watch::Sender<Option<Signal>>,
    hurry: watch::Sender<Option<Signal>>,
) {
    let note = |first: &watch::Sender<Option<Signal>>, signal| {
        if terminates(signal) {
            first.send_if_modified(|first| first.replace(signal).is_none());
        }
    };
    loop {
        let signal = poll_fn(|cx| {
            let mut ready = streams.iter_mut().filter_map(|(signal, stream)| {
                matches!(stream.poll_recv(cx), Poll::Ready(Some(()))).then_some(*signal)
            });
            ready.next().map_or(Poll::Pending, Poll::Ready)
        })
        .await;
        match &*lock(&target) {
            Target::Command { shares_group: true, .. } if is_of_terminal(signal) => {}
            Target::Command { orders, .. } => {
                // Where the watchdog has ended, the command does as well.
                let _ = orders.send(&Order::Signal(signal.as_raw()));
            }
            Target::Waiting => note(&interrupt, signal),
            Target::Ended => note(&hurry, signal),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
