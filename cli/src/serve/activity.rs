//! The activity of a connection: it may be idle for longer than balancers keep idle connections, a request that has
//! begun has to arrive in time, and its response has to be received in time.
//!
//! ```text
//!                begin                     all requests have ended
//!   Head ──────────────────► Responding ─────────────────────────────► Idle
//!    ▲                           ▲                begin                 │ │
//!    │                           └──────────────────────────────────────┘ │
//!    └────────────────────────────────────────────────────────────────────┘
//!                          bytes over HTTP/1.1 arrive
//! ```

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{Instant, timeout},
};

use super::protocol::Protocol;

/// Maximum time for the head of a request to arrive once it has begun, and of the first one from the start.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time for a response to be received, once its head is known. A stream of events takes 20 s.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);
/// Time after which an idle connection is closed. Balancers keep idle connections for up to ten minutes, and
/// a request that they send while the server closes is lost.
const IDLE_TIMEOUT: Duration = Duration::from_secs(620);
/// Interval between checks of a connection.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The activity of a connection. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Activity(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Reports that the connection has to end for a newer one.
    displaced: Notify,
    /// Reports that a connection has become idle. All connections share it.
    became_idle: Arc<Notify>,
}

#[derive(Debug)]
struct State {
    opened: Instant,
    /// A request had access to the pages.
    is_admitted: bool,
    is_displaced: bool,
    phase: Phase,
    protocol: Protocol,
}

#[derive(Debug)]
enum Phase {
    /// The head of a request arrives.
    Head {
        since: Instant,
    },
    Responding(Requests),
    Idle {
        since: Instant,
    },
}

/// The requests whose responses have not been sent.
#[derive(Debug, Default)]
struct Requests {
    /// Number of requests that wait for the heads of their responses.
    answering: usize,
    /// When each response that is being sent has begun, in this order.
    sending: BTreeMap<u64, Instant>,
    /// Number of responses that have begun.
    begun: u64,
}

/// The rank of a connection among those that may end for a newer one. The first one ends first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Standing {
    /// A client that has shown no password ends before all that have.
    is_admitted: bool,
    /// For an admitted client, the time from which the connection is idle. For another one, the time of its begin:
    /// further requests keep no place.
    pub(super) since: Instant,
}

impl Activity {
    pub(super) fn new(became_idle: Arc<Notify>) -> Self {
        let opened = Instant::now();
        let state = State {
            opened,
            is_admitted: false,
            is_displaced: false,
            // A client connects to send a request.
            phase: Phase::Head { since: opened },
            protocol: Protocol::new(),
        };
        Self(Arc::new(Shared { state: Mutex::new(state), displaced: Notify::new(), became_idle }))
    }

    /// Notes that the head of a request has arrived.
    pub(super) fn begin(&self) -> ActiveRequest {
        let mut state = self.state();
        if !matches!(state.phase, Phase::Responding(_)) {
            state.phase = Phase::Responding(Requests::default());
        }
        if let Phase::Responding(requests) = &mut state.phase {
            requests.answering += 1;
        }
        ActiveRequest { activity: self.clone(), sending: None }
    }

    /// Notes that a request has access to the pages.
    pub(super) fn admit(&self) {
        self.state().is_admitted = true;
    }

    /// Notes that these bytes have arrived.
    pub(super) fn note_read(&self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let mut state = self.state();
        state.protocol = state.protocol.after(bytes);
        if matches!((&state.phase, state.protocol), (Phase::Idle { .. }, Protocol::Http1)) {
            state.phase = Phase::Head { since: Instant::now() };
        }
    }

    /// Returns the rank of the connection; `None` while an admitted client waits for a response.
    pub(super) fn standing(&self) -> Option<Standing> {
        let state = self.state();
        let since = match state.phase {
            _ if !state.is_admitted => state.opened,
            Phase::Head { since } | Phase::Idle { since } => since,
            Phase::Responding(_) => return None,
        };
        Some(Standing { is_admitted: state.is_admitted, since })
    }

    /// Ends the connection for a newer one.
    pub(super) fn displace(&self) {
        self.state().is_displaced = true;
        self.0.displaced.notify_one();
    }

    pub(super) fn is_displaced(&self) -> bool {
        self.state().is_displaced
    }

    /// Returns once the connection has to end: for a newer one, or as it was idle for too long, or as a head or a
    /// response took too long.
    pub(super) async fn is_over(&self) {
        while timeout(CHECK_INTERVAL, self.0.displaced.notified()).await.is_err() {
            let is_over = match &self.state().phase {
                Phase::Head { since } => since.elapsed() >= HEAD_TIMEOUT,
                Phase::Responding(requests) => {
                    requests.oldest().is_some_and(|since| since.elapsed() >= RESPONSE_TIMEOUT)
                }
                Phase::Idle { since } => since.elapsed() >= IDLE_TIMEOUT,
            };
            if is_over {
                return;
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Requests {
    /// Returns the begin of the response that is being sent for longest.
    fn oldest(&self) -> Option<Instant> {
        self.sending.first_key_value().map(|(_, since)| *since)
    }

    fn have_ended(&self) -> bool {
        self.answering == 0 && self.sending.is_empty()
    }
}

/// A request whose response has not been sent. A client may reset it, which drops it.
#[derive(Debug)]
pub(super) struct ActiveRequest {
    activity: Activity,
    /// The number of its response, once its head is known.
    sending: Option<u64>,
}

impl ActiveRequest {
    /// Notes that the head of its response is known.
    pub(super) fn answered(&mut self) {
        if let Phase::Responding(requests) = &mut self.activity.state().phase
            && self.sending.is_none()
        {
            requests.answering -= 1;
            requests.begun += 1;
            requests.sending.insert(requests.begun, Instant::now());
            self.sending = Some(requests.begun);
        }
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        let mut state = self.activity.state();
        let Phase::Responding(requests) = &mut state.phase else {
            debug_assert!(false, "the request is counted");
            return;
        };
        match self.sending {
            None => requests.answering -= 1,
            Some(number) => drop(requests.sending.remove(&number)),
        }
        if requests.have_ended() {
            state.phase = Phase::Idle { since: Instant::now() };
            drop(state);
            self.activity.0.became_idle.notify_one();
        }
    }
}
