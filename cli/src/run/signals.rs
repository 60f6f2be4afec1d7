//! Signals: forwarded to the command while it runs; before that they end the wait for the lock.

use std::{
    future::poll_fn,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Poll,
};

use rustix::process::Signal;
use tokio::{
    signal::unix::{self, SignalKind},
    sync::watch,
};

use super::{command::RunningCommand, group::Group};

/// The signals that are forwarded.
const FORWARDED: [Signal; 9] = [
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
fn terminates(signal: Signal) -> bool {
    signal != Signal::CONT && signal != Signal::WINCH
}

/// Receives this process's signals from its start on.
pub(super) struct Signals {
    target: Arc<Mutex<Target>>,
    /// The first signal that came while nothing ran.
    interrupted: watch::Receiver<Option<Signal>>,
}

/// Where signals go.
enum Target {
    /// To nobody yet.
    Waiting,
    Running(Group),
    /// To nobody any more.
    Ended,
}

impl Signals {
    pub(super) fn start() -> io::Result<Self> {
        let mut streams = Vec::with_capacity(FORWARDED.len());
        for signal in FORWARDED {
            streams.push((signal, unix::signal(SignalKind::from_raw(signal.as_raw()))?));
        }
        let target = Arc::new(Mutex::new(Target::Waiting));
        let (send, interrupted) = watch::channel(None);
        tokio::spawn(forward(streams, Arc::clone(&target), send));
        Ok(Self { target, interrupted })
    }

    /// Waits for a signal that ends this process, as no command runs that it could be forwarded to.
    pub(super) async fn interrupted(&self) -> Signal {
        let mut interrupted = self.interrupted.clone();
        loop {
            if let Some(signal) = *interrupted.borrow_and_update() {
                return signal;
            }
            if interrupted.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Starts the command, unless a signal came before, and forwards signals from then on. No signal
    /// is handled between the two.
    pub(super) fn start_command(
        &self,
        start: impl FnOnce() -> io::Result<RunningCommand>,
    ) -> Option<io::Result<RunningCommand>> {
        let mut target = lock(&self.target);
        if self.interrupted.borrow().is_some() {
            return None;
        }
        let started = start();
        *target = match &started {
            Ok(command) => Target::Running(command.group()),
            Err(_) => Target::Ended,
        };
        Some(started)
    }

    /// Forwards no more signals: the command has ended.
    pub(super) fn end_command(&self) {
        *lock(&self.target) = Target::Ended;
    }
}

async fn forward(
    mut streams: Vec<(Signal, unix::Signal)>,
    target: Arc<Mutex<Target>>,
    interrupted: watch::Sender<Option<Signal>>,
) {
    loop {
        let signal = poll_fn(|cx| {
            let mut ready = streams.iter_mut().filter_map(|(signal, stream)| {
                matches!(stream.poll_recv(cx), Poll::Ready(Some(()))).then_some(*signal)
            });
            ready.next().map_or(Poll::Pending, Poll::Ready)
        })
        .await;
        match &*lock(&target) {
            Target::Running(group) => group.forward(signal),
            Target::Waiting if terminates(signal) => {
                interrupted.send_if_modified(|first| first.replace(signal).is_none());
            }
            Target::Waiting | Target::Ended => {}
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
