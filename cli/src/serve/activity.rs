//! What a connection does: it may be idle for longer than a balancer keeps it, but a request that has begun
//! has to arrive.

use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, sleep},
};

/// Maximum time for the head of a request to arrive once it has begun, and of the first one from the start.
const HEAD: Duration = Duration::from_secs(10);
/// Time after which an idle connection is closed. Balancers keep idle connections for up to ten minutes, and
/// a request that they send while the server closes is lost.
const IDLE: Duration = Duration::from_secs(620);
/// Interval between looks.
const LOOK: Duration = Duration::from_secs(1);
/// What a connection over HTTP/2 begins with: its frames are no heads of requests.
const PREFACE: &[u8] = b"PRI";

/// The activity of a connection. Clones are the same one.
#[derive(Clone, Debug)]
pub(super) struct Activity(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    /// Number of requests that have no response yet.
    in_flight: usize,
    /// When it began to be idle, or the next head began to arrive.
    idle_since: Instant,
    head_since: Option<Instant>,
    has_read: bool,
    is_http2: bool,
}

impl Activity {
    pub(super) fn new() -> Self {
        let idle_since = Instant::now();
        // Whoever connects wants something.
        let (head_since, in_flight) = (Some(idle_since), 0);
        let state = State { in_flight, idle_since, head_since, has_read: false, is_http2: false };
        Self(Arc::new(Mutex::new(state)))
    }

    /// The head of a request has arrived.
    pub(super) fn begin(&self) {
        let mut state = self.state();
        state.in_flight += 1;
        state.head_since = None;
    }

    /// The head of its response is known.
    pub(super) fn end(&self) {
        let mut state = self.state();
        state.in_flight -= 1;
        state.idle_since = Instant::now();
    }

    fn note_read(&self, bytes: &[u8]) {
        let mut state = self.state();
        if bytes.is_empty() {
            return;
        }
        if !std::mem::replace(&mut state.has_read, true) {
            state.is_http2 = bytes.starts_with(PREFACE);
            if state.is_http2 {
                state.head_since = None;
            }
        }
        if state.in_flight == 0 && !state.is_http2 {
            state.head_since.get_or_insert_with(Instant::now);
        }
    }

    /// Returns once the connection has been idle for too long, or a head did not arrive in time.
    pub(super) async fn expired(&self) {
        loop {
            sleep(LOOK).await;
            let state = self.state();
            let is_late = state.head_since.is_some_and(|since| since.elapsed() >= HEAD);
            if is_late || (state.in_flight == 0 && state.idle_since.elapsed() >= IDLE) {
                return;
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A stream whose reads are noted.
pub(super) struct Watched<S> {
    pub(super) stream: S,
    pub(super) activity: Activity,
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.activity.note_read(&buf.filled()[before..]);
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
