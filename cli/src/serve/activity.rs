//! The activity of a connection: it may be idle for longer than balancers keep idle connections, and a
//! request that has begun has to arrive in time.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, sleep};

/// Maximum time for the head of a request to arrive once it has begun, and of the first one from the start.
const HEAD: Duration = Duration::from_secs(10);
/// Time after which an idle connection is closed. Balancers keep idle connections for up to ten minutes, and
/// a request that they send while the server closes is lost.
const IDLE: Duration = Duration::from_secs(620);
/// Interval between checks of a connection.
const INTERVAL: Duration = Duration::from_secs(1);
/// The first bytes of a connection over HTTP/2 (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The activity of a connection. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Activity(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    phase: Phase,
    protocol: Protocol,
}

#[derive(Clone, Copy, Debug)]
enum Protocol {
    /// The bytes so far are this many of the preface.
    Unknown {
        matching: usize,
    },
    Http1,
    /// Its frames do not begin requests by themselves.
    Http2,
}

impl Protocol {
    /// Returns the protocol after these bytes, too.
    fn after(self, bytes: &[u8]) -> Self {
        let Self::Unknown { matching } = self else { return self };
        let expected = &PREFACE[matching..];
        let compared = expected.len().min(bytes.len());
        match () {
            () if bytes[..compared] != expected[..compared] => Self::Http1,
            () if compared == expected.len() => Self::Http2,
            () => Self::Unknown { matching: matching + compared },
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// The head of a request arrives.
    Head {
        since: Instant,
    },
    /// Requests wait for the heads of their responses.
    Responding {
        requests: usize,
    },
    Idle {
        since: Instant,
    },
}

/// A request that waits for the head of its response. A client may reset it, which drops it.
#[derive(Debug)]
pub(super) struct ActiveRequest(Activity);

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.phase = match state.phase {
            Phase::Responding { requests: requests @ 2.. } => {
                Phase::Responding { requests: requests - 1 }
            }
            phase => {
                debug_assert!(matches!(phase, Phase::Responding { .. }), "the request is counted");
                Phase::Idle { since: Instant::now() }
            }
        };
    }
}

impl Activity {
    pub(super) fn new() -> Self {
        // A client connects to send a request.
        let phase = Phase::Head { since: Instant::now() };
        let protocol = Protocol::Unknown { matching: 0 };
        Self(Arc::new(Mutex::new(State { phase, protocol })))
    }

    /// Notes that the head of a request has arrived.
    pub(super) fn begin(&self) -> ActiveRequest {
        let mut state = self.state();
        let others = if let Phase::Responding { requests } = state.phase { requests } else { 0 };
        state.phase = Phase::Responding { requests: others + 1 };
        ActiveRequest(self.clone())
    }

    /// Notes that these bytes have arrived.
    pub(super) fn note_read(&self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let mut state = self.state();
        state.protocol = state.protocol.after(bytes);
        let now = Instant::now();
        match (state.phase, state.protocol) {
            (Phase::Head { .. }, Protocol::Http2) => state.phase = Phase::Idle { since: now },
            (Phase::Idle { .. }, Protocol::Http1) => state.phase = Phase::Head { since: now },
            _ => {}
        }
    }

    /// Returns once the connection has been idle for too long, or a head did not arrive in time.
    pub(super) async fn expired(&self) {
        loop {
            sleep(INTERVAL).await;
            let is_over = match self.state().phase {
                Phase::Head { since } => since.elapsed() >= HEAD,
                Phase::Responding { .. } => false,
                Phase::Idle { since } => since.elapsed() >= IDLE,
            };
            if is_over {
                return;
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_preface_is_http2() {
        let protocol = |parts: &[&[u8]]| {
            let first = Protocol::Unknown { matching: 0 };
            parts.iter().fold(first, |protocol, part| protocol.after(part))
        };
        let (begin, end) = PREFACE.split_at(3);

        assert!(matches!(protocol(&[PREFACE]), Protocol::Http2));
        assert!(matches!(protocol(&[begin, end, b"more"]), Protocol::Http2));
        assert!(matches!(protocol(&[begin]), Protocol::Unknown { matching: 3 }));
        for other in [&b"PRI /nodes HTTP/1.1\r\n"[..], b"PRI * HTTP/1.1\r\n", b"GET / HTTP/1.1\r\n"]
        {
            assert!(matches!(protocol(&[other]), Protocol::Http1));
            assert!(matches!(protocol(&[begin, &other[3..], end]), Protocol::Http1));
        }
    }
}
