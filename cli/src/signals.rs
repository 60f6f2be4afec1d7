//! The signals that this process handles.

use std::{fs, future::poll_fn, io, task::Poll};

use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind};

/// The signals that ask the program to end.
pub(crate) const END: [Signal; 3] = [Signal::INT, Signal::TERM, Signal::HUP];

/// Receives signals. From its creation on they no longer have their default actions.
#[derive(Debug)]
pub(crate) struct Signals(Vec<(Signal, unix::Signal)>);

impl Signals {
    pub(crate) fn new(signals: impl IntoIterator<Item = Signal>) -> io::Result<Self> {
        let stream = |of: Signal| Ok((of, unix::signal(SignalKind::from_raw(of.as_raw()))?));
        signals.into_iter().map(stream).collect::<io::Result<_>>().map(Self)
    }

    /// Waits for a signal.
    ///
    /// # Cancel safety
    ///
    /// No signal is lost.
    pub(crate) async fn recv(&mut self) -> Signal {
        poll_fn(|cx| {
            let mut ready = self.0.iter_mut().filter_map(|(of, stream)| {
                matches!(stream.poll_recv(cx), Poll::Ready(Some(()))).then_some(*of)
            });
            ready.next().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

/// Returns the exit code of a program that the signal ended, as shells report it.
pub(crate) fn exit_code(signal: Signal) -> u8 {
    u8::try_from(128 + signal.as_raw()).unwrap_or(u8::MAX)
}

/// Returns whether the signal is ignored, as by nohup(1), unless this process handles it. `false` without
/// `/proc`.
pub(crate) fn is_ignored(signal: Signal) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal.as_raw() - 1) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_known() {
        // The runtime of Rust ignores this one.
        assert!(is_ignored(Signal::PIPE) && !is_ignored(Signal::TERM));
    }
}
