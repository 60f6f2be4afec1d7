//! Reads a body to its end, up to a limit.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, header::CONTENT_LENGTH};
use http_body::Body;

use super::{Incomplete, ReadBodyError, WholeBody};
use crate::{
    lock::{HeldBytes, NoRoom, Redlock},
    time::Sleep,
};

/// Default maximum size of a body: 1 MiB.
pub const DEFAULT_BODY_LIMIT: usize = 1 << 20;

/// Maximum number of frames per poll, so that other tasks can run.
const FRAMES_PER_POLL: u32 = 64;

/// Reads a body to its end, data and trailers, up to a limit of its data.
///
/// A body whose size hint or `Content-Length` exceeds the limit is not polled. The memory grows
/// with the received data, not with the announced length. Trailers are limited by the server.
///
/// It has no timeout, except in this crate's layers.
///
/// # Errors
///
/// [`Incomplete`] if the body is larger, or failed. Its [`into_body`](Incomplete::into_body)
/// returns a body that yields the data that was read, then the rest.
///
/// # Cancel safety
///
/// Dropping it drops the body and the data that was read.
///
/// # Panics
///
/// If polled again after it was ready.
///
/// ```
/// use bytes::Bytes;
/// use http_body_util::{BodyExt, Full};
/// use tower_redlock::once::{RestoredBody, ReadBody};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let request = http::Request::post("/").body(Full::<Bytes>::from("payload"))?;
/// let (parts, body) = request.into_parts();
/// let body = ReadBody::new(&parts.headers, body, 1024).await.map_err(|short| short.into_error())?;
/// assert_eq!(body.data(), "payload");
///
/// // For the handler: the same data, trailers and size.
/// let again: RestoredBody<Full<Bytes>> = body.into();
/// assert_eq!(again.collect().await?.to_bytes(), "payload");
/// # Ok(())
/// # }
/// ```
#[must_use = "futures do nothing unless polled"]
pub struct ReadBody<B> {
    /// Boxed, as the rest of the body moves into the result.
    body: Option<Pin<Box<B>>>,
    announced: u64,
    limit: usize,
    collected: BodyBuffer,
    /// The data's share of the memory for waiting bodies, in layers.
    held: Option<HeldBytes>,
    /// The timeout, and its duration.
    deadline: Option<(Sleep, Duration)>,
}

impl<B: Body> ReadBody<B> {
    /// Reads `body`, which has these headers, up to `limit` bytes of data.
    ///
    /// Pass no headers for a response to HEAD, as its `Content-Length` does not describe its body.
    pub fn new(headers: &HeaderMap, body: B, limit: usize) -> Self {
        let length =
            headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        let announced = body.size_hint().lower().max(length.unwrap_or(0));
        Self {
            body: Some(Box::pin(body)),
            announced,
            limit,
            collected: BodyBuffer::default(),
            held: None,
            deadline: None,
        }
    }
}

impl<B> ReadBody<B> {
    /// Uses the manager's memory for waiting bodies, and fails after `timeout`.
    pub(crate) fn for_layer(self, redlock: &Redlock, timeout: Duration) -> Self {
        let held = Some(HeldBytes::none(redlock.body_room()));
        Self { held, deadline: Some((redlock.sleep(timeout), timeout)), ..self }
    }

    /// Returns the data's share of the memory for waiting bodies.
    pub(crate) fn take_held(&mut self) -> Option<HeldBytes> {
        self.held.take()
    }

    fn take(&mut self) -> (Pin<Box<B>>, BodyBuffer) {
        let body = self.body.take().expect("polled after it was ready");
        (body, std::mem::take(&mut self.collected))
    }

    /// Stops reading.
    pub(crate) fn stop(&mut self) -> Incomplete<B>
    where
        B: Body,
    {
        self.fail(ReadBodyError::TooLarge { limit: self.limit })
    }

    fn fail(&mut self, error: ReadBodyError<B::Error>) -> Incomplete<B>
    where
        B: Body,
    {
        let (body, read) = self.take();
        Incomplete::new(error, read.finish(), Some(body))
    }
}

impl<B: Body> Future for ReadBody<B> {
    type Output = Result<WholeBody, Incomplete<B>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let announced = usize::try_from(this.announced).unwrap_or(usize::MAX);
        if announced > this.limit {
            return Poll::Ready(Err(this.stop()));
        }
        if this.collected.len() == 0
            && let Some(Err(NoRoom(limit))) = this.held.as_ref().map(|held| held.check(announced))
        {
            return Poll::Ready(Err(this.fail(ReadBodyError::Crowded { limit })));
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
                return Poll::Ready(Err(this.fail(ReadBodyError::TimedOut { limit })));
            };
            match frame {
                None => return Poll::Ready(Ok(this.take().1.finish())),
                Some(Err(error)) => {
                    let (_, read) = this.take();
                    let error = ReadBodyError::Body(error);
                    return Poll::Ready(Err(Incomplete::new(error, read.finish(), None)));
                }
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => {
                        this.collected.add(data);
                        if this.collected.len() > this.limit {
                            return Poll::Ready(Err(this.stop()));
                        }
                        let read = this.collected.len();
                        if let Some(Err(NoRoom(limit))) =
                            this.held.as_mut().map(|held| held.grow_to(read))
                        {
                            return Poll::Ready(Err(this.fail(ReadBodyError::Crowded { limit })));
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

/// The data and trailers read so far.
#[derive(Default)]
struct BodyBuffer {
    /// The data of a single frame, the usual case: not copied.
    first: Bytes,
    /// All data, from the second frame on.
    all: BytesMut,
    trailers: Option<HeaderMap>,
}

impl BodyBuffer {
    fn len(&self) -> usize {
        self.first.len() + self.all.len()
    }

    fn add(&mut self, mut data: impl Buf) {
        if self.len() == 0 {
            self.first = data.copy_to_bytes(data.remaining());
        } else if data.has_remaining() {
            self.all.extend_from_slice(&std::mem::take(&mut self.first));
            self.all.reserve(data.remaining());
            while data.has_remaining() {
                let chunk = data.chunk();
                let len = chunk.len();
                self.all.extend_from_slice(chunk);
                data.advance(len);
            }
        }
    }

    fn add_trailers(&mut self, trailers: HeaderMap) {
        match &mut self.trailers {
            Some(earlier) => earlier.extend(trailers),
            None => self.trailers = Some(trailers),
        }
    }

    fn finish(self) -> WholeBody {
        let data = if self.all.is_empty() { self.first } else { self.all.freeze() };
        WholeBody { data, trailers: self.trailers }
    }
}
