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
/// The first bytes of a connection over HTTP/2. Its later frames do not begin requests by themselves.
const PREFACE: &[u8] = b"PRI";

/// The activity of a connection. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Activity(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    phase: Phase,
    /// `None` before the first bytes.
    is_http2: Option<bool>,
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

impl Activity {
    pub(super) fn new() -> Self {
        // A client connects to send a request.
        let phase = Phase::Head { since: Instant::now() };
        Self(Arc::new(Mutex::new(State { phase, is_http2: None })))
    }

    /// Notes that the head of a request has arrived.
    pub(super) fn begin(&self) {
        let mut state = self.state();
        let others = if let Phase::Responding { requests } = state.phase { requests } else { 0 };
        state.phase = Phase::Responding { requests: others + 1 };
    }

    /// Notes that the head of a response is known.
    pub(super) fn end(&self) {
        let mut state = self.state();
        state.phase = match state.phase {
            Phase::Responding { requests: requests @ 2.. } => {
                Phase::Responding { requests: requests - 1 }
            }
            phase => {
                assert!(matches!(phase, Phase::Responding { .. }), "a response has a request");
                Phase::Idle { since: Instant::now() }
            }
        };
    }

    /// Notes that these bytes have arrived.
    pub(super) fn note_read(&self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let mut state = self.state();
        let is_first = state.is_http2.is_none();
        let is_http2 = *state.is_http2.get_or_insert(bytes.starts_with(PREFACE));
        let now = Instant::now();
        match state.phase {
            Phase::Head { .. } if is_first && is_http2 => state.phase = Phase::Idle { since: now },
            Phase::Idle { .. } if !is_http2 => state.phase = Phase::Head { since: now },
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
