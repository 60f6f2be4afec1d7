//! A body that is passed on after it was read.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use pin_project::pin_project;

use super::WholeBody;
use crate::lock::HeldBytes;

/// A body of the type `B` that was read, and is passed on unchanged: with the same data, trailers
/// and end. Its length is known, except with trailers, which HTTP/1 sends only after a body of
/// unknown length.
///
/// It may also be a body that was not read, or only in part. The data that was read then comes
/// first.
///
/// # Services that accept it
///
/// A service inside a layer that reads bodies gets `Request<RestoredBody<B>>`. axum's routes and
/// handlers, tonic's servers, and other services that are generic over the body accept it. A
/// service with one type of body, such as `axum::body::Body`, or `axum::middleware::from_fn` in the
/// same `ServiceBuilder`, needs tower-http's `MapRequestBodyLayer::new(axum::body::Body::new)` in
/// between.
#[pin_project]
pub struct RestoredBody<B: Body> {
    read: Bytes,
    trailers: Option<HeaderMap>,
    #[pin]
    rest: Rest<B>,
    /// The data's share of the memory for waiting bodies, held until the data is passed on.
    held: Option<HeldBytes>,
}

#[pin_project(project = RestProj)]
enum Rest<B: Body> {
    /// The whole body was read.
    None,
    Body(#[pin] B),
    /// The rest of a body that was polled, so it must not move.
    Begun(Pin<Box<B>>),
    Failed(Option<B::Error>),
}

impl<B: Body> RestoredBody<B> {
    /// Creates a body of which no data was read.
    pub fn untouched(body: B) -> Self {
        Self { read: Bytes::new(), trailers: None, rest: Rest::Body(body), held: None }
    }

    /// Holds this share of memory until the data is passed on or dropped.
    pub(crate) fn holding(mut self, held: Option<HeldBytes>) -> Self {
        self.held = held;
        self
    }

    pub(super) fn begun(read: WholeBody, rest: Pin<Box<B>>) -> Self {
        let (read, trailers) = read.into_parts();
        Self { read, trailers, rest: Rest::Begun(rest), held: None }
    }

    pub(super) fn failing(read: WholeBody, error: B::Error) -> Self {
        let (read, trailers) = read.into_parts();
        Self { read, trailers, rest: Rest::Failed(Some(error)), held: None }
    }
}

impl<B: Body> From<WholeBody> for RestoredBody<B> {
    fn from(whole: WholeBody) -> Self {
        let (read, trailers) = whole.into_parts();
        Self { read, trailers, rest: Rest::None, held: None }
    }
}

/// An empty body.
impl<B: Body> Default for RestoredBody<B> {
    fn default() -> Self {
        WholeBody::default().into()
    }
}

impl<B: Body> Body for RestoredBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.project();
        if !this.read.is_empty() {
            *this.held = None;
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(this.read)))));
        }
        let rest = match this.rest.project() {
            RestProj::None => None,
            RestProj::Failed(error) => error.take().map(Err),
            RestProj::Body(rest) => ready!(rest.poll_frame(cx)),
            RestProj::Begun(rest) => ready!(rest.as_mut().poll_frame(cx)),
        };
        let whole = |mut data: B::Data| data.copy_to_bytes(data.remaining());
        let rest = rest.map(|frame| frame.map(|frame| frame.map_data(whole)));
        // Trailers are the last frame.
        Poll::Ready(rest.or_else(|| this.trailers.take().map(Frame::trailers).map(Ok)))
    }

    fn is_end_stream(&self) -> bool {
        self.read.is_empty()
            && self.trailers.is_none()
            && match &self.rest {
                Rest::None => true,
                Rest::Body(rest) => rest.is_end_stream(),
                Rest::Begun(rest) => rest.is_end_stream(),
                Rest::Failed(error) => error.is_none(),
            }
    }

    fn size_hint(&self) -> SizeHint {
        let read = self.read.len() as u64;
        let rest = match &self.rest {
            // HTTP/1 allows no trailers after a body of known length.
            Rest::None if self.trailers.is_some() => SizeHint::default(),
            Rest::None => return SizeHint::with_exact(read),
            Rest::Body(rest) => rest.size_hint(),
            Rest::Begun(rest) => rest.size_hint(),
            Rest::Failed(_) => SizeHint::default(),
        };
        let mut both = SizeHint::default();
        both.set_lower(read.saturating_add(rest.lower()));
        if let Some(upper) = rest.upper().and_then(|upper| upper.checked_add(read)) {
            both.set_upper(upper);
        }
        both
    }
}

/// Shows only lengths: bodies may hold secrets.
impl<B: Body> fmt::Debug for RestoredBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rest = match &self.rest {
            Rest::None => "none",
            Rest::Body(_) | Rest::Begun(_) => "unread",
            Rest::Failed(_) => "failed",
        };
        f.debug_struct("RestoredBody")
            .field("read", &self.read.len())
            .field("rest", &rest)
            .finish_non_exhaustive()
    }
}
