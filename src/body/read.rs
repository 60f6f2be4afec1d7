//! Reads a body to its end, up to a limit.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use http::{HeaderMap, header::CONTENT_LENGTH};
use http_body::Body;

use super::{Incomplete, WholeBody, whole::Collected};
use crate::{
    lock::{BodyRoom, Core, HeldBytes, NoRoom},
    time::Sleep,
};

/// The most that is read of a body where nothing else is said: 1 MiB.
pub const DEFAULT_BODY_LIMIT: usize = 1 << 20;

/// So many frames are taken in one poll; then other tasks have their turn.
const FRAMES_PER_POLL: u32 = 64;

/// Reads a body to its end, data and trailers, up to a bound of its data.
///
/// A body that is announced as longer, by its size hint or by `Content-Length`, is not begun. Memory
/// grows with what came, not with what was announced. Trailers are bounded by the server that
/// reads them from the connection.
///
/// There is no time-out in it: put one around a service that reads what strangers send. (This
/// crate's layers have one.)
///
/// # Errors
///
/// [`Incomplete`]: the body is larger, or failed. Its [`into_body`](Incomplete::into_body) is the
/// body as if nobody had begun to read it, so that a response that is too large to keep is still
/// sent.
///
/// # Cancel safety
///
/// Dropping it drops the body, and what was read.
///
/// # Panics
///
/// If polled again after it was ready.
///
/// ```
/// use bytes::Bytes;
/// use http_body_util::{BodyExt, Full};
/// use tower_redlock::once::{Intact, ReadBody};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let request = http::Request::post("/").body(Full::<Bytes>::from("payload"))?;
/// let (parts, body) = request.into_parts();
/// let body = ReadBody::new(&parts.headers, body, 1024).await.map_err(|short| short.into_error())?;
/// assert_eq!(body.data(), "payload");
///
/// // For the handler: the same data, trailers and size.
/// let again: Intact<Full<Bytes>> = body.into();
/// assert_eq!(again.collect().await?.to_bytes(), "payload");
/// # Ok(())
/// # }
/// ```
#[must_use = "futures do nothing unless polled"]
pub struct ReadBody<B> {
    /// In its own memory: what was read and the rest are handed on together, so the body moves.
    body: Option<Pin<Box<B>>>,
    announced: u64,
    limit: usize,
    collected: Collected,
    /// Room that is shared with other bodies, where it is.
    held: Option<HeldBytes>,
    /// When it is given up, and after how long that is.
    deadline: Option<(Sleep, Duration)>,
}

impl<B: Body> ReadBody<B> {
    /// Reads `body`, which came with these headers, and has at most `limit` bytes of data.
    ///
    /// The `Content-Length` of a response to HEAD tells of a body that is not there: read that with
    /// no headers.
    pub fn new(headers: &HeaderMap, body: B, limit: usize) -> Self {
        let length =
            headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        let announced = body.size_hint().lower().max(length.unwrap_or(0));
        Self {
            body: Some(Box::pin(body)),
            announced,
            limit,
            collected: Collected::default(),
            held: None,
            deadline: None,
        }
    }
}

impl<B> ReadBody<B> {
    /// As a layer reads it: in the manager's room for bodies, and up to `timeout` from now.
    pub(crate) fn for_layer(self, core: &Core, timeout: Duration) -> Self {
        let mut this = self.within(&core.body_room);
        this.deadline = Some((core.sleep(timeout), timeout));
        this
    }

    /// What is read takes room that is shared with other bodies.
    fn within(mut self, room: &Arc<BodyRoom>) -> Self {
        self.held = Some(HeldBytes::none(room));
        self
    }

    /// The room that the body takes which was read.
    pub(crate) fn take_held(&mut self) -> Option<HeldBytes> {
        self.held.take()
    }

    fn take(&mut self) -> (Pin<Box<B>>, Collected) {
        let body = self.body.take().expect("polled after it was ready");
        (body, std::mem::take(&mut self.collected))
    }

    /// Ends it where it is: what was read, and the rest.
    pub(crate) fn stop(&mut self) -> Incomplete<B>
    where
        B: Body,
    {
        self.too_large()
    }

    fn crowded(&mut self, NoRoom(limit): NoRoom) -> Incomplete<B>
    where
        B: Body,
    {
        let (body, read) = self.take();
        Incomplete::crowded(limit, read.finish(), body)
    }

    fn timed_out(&mut self, limit: Duration) -> Incomplete<B>
    where
        B: Body,
    {
        let (body, read) = self.take();
        Incomplete::timed_out(limit, read.finish(), body)
    }

    fn too_large(&mut self) -> Incomplete<B>
    where
        B: Body,
    {
        let limit = self.limit;
        let (body, read) = self.take();
        Incomplete::too_large(limit, read.finish(), body)
    }
}

impl<B: Body> Future for ReadBody<B> {
    type Output = Result<WholeBody, Incomplete<B>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let announced = usize::try_from(this.announced).unwrap_or(usize::MAX);
        if announced > this.limit {
            return Poll::Ready(Err(this.too_large()));
        }
        if this.collected.len() == 0
            && let Some(Err(no_room)) = this.held.as_ref().map(|held| held.check(announced))
        {
            return Poll::Ready(Err(this.crowded(no_room)));
        }
        for _ in 0..FRAMES_PER_POLL {
            let body = this.body.as_mut().expect("polled after it was ready");
            if body.is_end_stream() {
                return Poll::Ready(Ok(this.take().1.finish()));
            }
            let Poll::Ready(frame) = body.as_mut().poll_frame(cx) else {
                let Some((sleep, limit)) = &mut this.deadline else { return Poll::Pending };
                let limit = *limit;
                ready!(Pin::new(sleep).poll(cx));
                return Poll::Ready(Err(this.timed_out(limit)));
            };
            match frame {
                None => return Poll::Ready(Ok(this.take().1.finish())),
                Some(Err(error)) => {
                    let (_, read) = this.take();
                    return Poll::Ready(Err(Incomplete::failed(read.finish(), error)));
                }
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => {
                        this.collected.add(data);
                        if this.collected.len() > this.limit {
                            return Poll::Ready(Err(this.too_large()));
                        }
                        let read = this.collected.len();
                        if let Some(Err(no_room)) =
                            this.held.as_mut().map(|held| held.grow_to(read))
                        {
                            return Poll::Ready(Err(this.crowded(no_room)));
                        }
                    }
                    Err(frame) => {
                        if let Ok(trailers) = frame.into_trailers() {
                            this.collected.add_trailers(trailers);
                        }
                    }
                },
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<B> fmt::Debug for ReadBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadBody")
            .field("limit", &self.limit)
            .field("read", &self.collected.len())
            .finish_non_exhaustive()
    }
}
