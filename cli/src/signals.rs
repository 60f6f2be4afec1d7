//! The signals that end a command.

use std::future::pending;

#[cfg(unix)]
use rustix::process;
#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Whether this process was started with the signal ignored, as nohup(1) does. Read before this process handles
/// any. `false` where there is no `/proc`.
#[cfg(unix)]
pub(crate) fn is_ignored(signal: process::Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal.as_raw() - 1) & 1 == 1
}

/// The signals that ask the program to end. From its creation on they no longer end it by themselves.
#[cfg(unix)]
#[derive(Debug)]
pub(crate) struct EndSignals {
    interrupt: Option<Signal>,
    terminate: Option<Signal>,
    hangup: Option<Signal>,
}

#[cfg(unix)]
impl EndSignals {
    /// Registers the handlers. A signal whose handler fails to register keeps its default action.
    pub(crate) fn new() -> Self {
        Self {
            interrupt: signal(SignalKind::interrupt()).ok(),
            terminate: signal(SignalKind::terminate()).ok(),
            hangup: signal(SignalKind::hangup()).ok(),
        }
    }

    /// As [`new`](Self::new), but a hangup that was ignored at the start stays so.
    pub(crate) fn of_server() -> Self {
        let is_deaf = is_ignored(process::Signal::HUP);
        let signals = Self::new();
        if is_deaf { Self { hangup: None, ..signals } } else { signals }
    }

    /// Waits for a signal. Returns the exit code for it: 128 plus the signal's number.
    pub(crate) async fn recv(&mut self) -> u8 {
        async fn one(signal: &mut Option<Signal>) -> Option<()> {
            signal.as_mut()?.recv().await
        }
        tokio::select! {
            Some(()) = one(&mut self.interrupt) => 130,
            Some(()) = one(&mut self.terminate) => 143,
            Some(()) = one(&mut self.hangup) => 129,
            else => pending().await,
        }
    }
}

#[cfg(not(unix))]
#[derive(Debug)]
pub(crate) struct EndSignals;

#[cfg(not(unix))]
impl EndSignals {
    pub(crate) fn new() -> Self {
        Self
    }

    pub(crate) fn of_server() -> Self {
        Self
    }

    pub(crate) async fn recv(&mut self) -> u8 {
        match tokio::signal::ctrl_c().await {
            Ok(()) => 130,
            Err(_) => pending().await,
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_ignored_here() {
        // The runtime of Rust ignores this one.
        assert!(is_ignored(process::Signal::PIPE) && !is_ignored(process::Signal::TERM));
    }
}
