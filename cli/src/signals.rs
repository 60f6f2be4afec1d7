//! The signals that end a command.

use std::future::pending;

/// Waits for a signal that asks the program to end. Returns the exit code that tells it: 128 and the
/// signal's number.
#[cfg(unix)]
pub(crate) async fn ended() -> u8 {
    use tokio::signal::unix::{SignalKind, signal};
    let of = |kind, code| async move {
        match signal(kind) {
            Ok(mut signals) => signals.recv().await,
            // The signal then ends the program as it would without a handler.
            Err(_) => pending().await,
        };
        code
    };
    tokio::select! {
        code = of(SignalKind::interrupt(), 130) => code,
        code = of(SignalKind::terminate(), 143) => code,
        code = of(SignalKind::hangup(), 129) => code,
    }
}

#[cfg(not(unix))]
pub(crate) async fn ended() -> u8 {
    match tokio::signal::ctrl_c().await {
        Ok(()) => 130,
        Err(_) => pending().await,
    }
}
