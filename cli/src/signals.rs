//! The signals that end a command.

use std::future::pending;

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

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

    pub(crate) async fn recv(&mut self) -> u8 {
        match tokio::signal::ctrl_c().await {
            Ok(()) => 130,
            Err(_) => pending().await,
        }
    }
}
