//! Buffers a response under its lock, for HTTP/1.0, where the end of the connection is the only end
//! of a body.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{BufMut, Bytes, BytesMut};
use http::{Response, StatusCode, response::Parts};
use http_body::Body;
use pin_project::pin_project;

use super::{
    HttpBody,
    held_body::{HeldBody, HeldBodyEvent},
};
use crate::{error::LockError, guard::Hold, reject::problem, resource::Resource};

/// Maximum size of a response of unannounced length to a client of HTTP/1.0, in bytes: 1 MiB.
pub const GATHER_LIMIT: usize = 1 << 20;

/// Reads the body of a response to its end.
#[pin_project]
pub(super) struct BufferResponse<A> {
    #[pin]
    body: HeldBody<A>,
    head: Option<Parts>,
    read: BytesMut,
}

/// The reason why a response was not read to its end. Its body is dropped, and the lock released.
pub(super) enum Unread {
    Lost(LockError),
    TooLarge,
}

impl<A: Body> BufferResponse<A> {
    pub(super) fn new(response: Response<A>, hold: Option<Hold>) -> Self {
        let (head, body) = response.into_parts();
        Self { body: HeldBody::new(body, hold), head: Some(head), read: BytesMut::new() }
    }
}

impl<A: Body> Future for BufferResponse<A> {
    type Output = Result<Response<HttpBody<A>>, Unread>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let body = loop {
            match ready!(this.body.as_mut().poll_event(cx)) {
                Some(HeldBodyEvent::Frame(frame)) => {
                    // HTTP/1.0 has no trailers.
                    if let Ok(data) = frame.into_data() {
                        this.read.put(data);
                    }
                }
                Some(HeldBodyEvent::Cut(error)) => return Poll::Ready(Err(Unread::Lost(error))),
                Some(HeldBodyEvent::Failed(error)) => break HttpBody::of_failure(error),
                Some(HeldBodyEvent::Bytes(_)) | None => {
                    break HttpBody::of_bytes(std::mem::take(this.read).freeze());
                }
            }
            if this.read.len() > GATHER_LIMIT {
                // Drops the body, then releases the lock.
                this.body.set(HeldBody::Cut);
                return Poll::Ready(Err(Unread::TooLarge));
            }
        };
        let head = this.head.take().expect("polled after it was ready");
        Poll::Ready(Ok(Response::from_parts(head, body)))
    }
}

pub(super) fn too_large(resource: Option<&Resource>) -> Response<Bytes> {
    crate::log::warn!(
        resource = resource.map(tracing::field::display),
        limit = GATHER_LIMIT,
        "response dropped: a client of HTTP/1.0 could not tell whether a lost lock cut it; let its \
         proxy speak HTTP/1.1, announce the length, or say hold_body(false)"
    );
    problem(
        StatusCode::INTERNAL_SERVER_ERROR,
        "response-too-large",
        "the request ran, and its response is too large to be sent over HTTP/1.0: use HTTP/1.1",
        "unknown",
    )
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use http_body_util::Full;

    use super::*;

    #[test]
    fn only_larger_responses_are_refused() {
        for (bytes, is_sent) in [(GATHER_LIMIT, true), (GATHER_LIMIT + 1, false)] {
            let response = Response::new(Full::new(Bytes::from(vec![b'x'; bytes])));
            let read = BufferResponse::new(response, None).now_or_never().unwrap();
            assert_eq!(read.is_ok(), is_sent, "{bytes} bytes");
            assert!(matches!(read, Ok(_) | Err(Unread::TooLarge)));
        }
    }
}
