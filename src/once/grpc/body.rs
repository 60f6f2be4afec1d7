//! The body of a response to a gRPC call with a key.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use http_body::{Body, Frame, SizeHint};
use pin_project::pin_project;

use super::call::{SlotItem, SlotReader};

/// The body of a response behind [`OnceLayer::grpc`](crate::OnceLayer::grpc): the service's own,
/// polled under the lock of its key, or an empty one for a call that did not run.
///
/// The trailers are sent when the outcome is recorded. A call that outlives the lock ends with the status
/// of a lost lock, as trailers.
///
/// # Cancel safety
///
/// After a drop before its end, the layer reads the service's body to its end, and records the outcome,
/// unless [`detached`](crate::OnceLayer::detached) is off. A [long](crate::OnceLayer#method.grpc) stream is
/// dropped, and its outcome is unknown.
#[pin_project]
pub struct OnceGrpcBody<A: Body> {
    #[pin]
    state: BodyState<A>,
}

#[pin_project(project = BodyStateProj)]
enum BodyState<A: Body> {
    /// The service's own: without a lock, or after a head with the status.
    Own {
        #[pin]
        body: A,
    },
    Answered {
        /// Dropped first: the call then has no reader.
        reader: SlotReader<A>,
        call: RestOfCall<A>,
    },
    Over,
}

/// A call whose head was sent, up to its last frame.
pub(super) type RestOfCall<A> = Pin<Box<dyn Future<Output = Option<LastFrame<A>>> + Send>>;

pub(super) type LastFrame<A> = Result<Frame<<A as Body>::Data>, <A as Body>::Error>;

impl<A: Body> OnceGrpcBody<A> {
    pub(super) const fn own(body: A) -> Self {
        Self { state: BodyState::Own { body } }
    }

    pub(super) const fn answered(reader: SlotReader<A>, call: RestOfCall<A>) -> Self {
        Self { state: BodyState::Answered { reader, call } }
    }
}

/// An empty body, for layers outside that make responses of their own.
impl<A: Body> Default for OnceGrpcBody<A> {
    fn default() -> Self {
        Self { state: BodyState::Over }
    }
}

impl<A: Body> Body for OnceGrpcBody<A> {
    type Data = A::Data;
    type Error = A::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let mut state = self.project().state;
        match state.as_mut().project() {
            BodyStateProj::Own { body } => body.poll_frame(cx),
            BodyStateProj::Answered { reader, call } => match call.as_mut().poll(cx) {
                Poll::Ready(last) => {
                    state.set(BodyState::Over);
                    Poll::Ready(last)
                }
                Poll::Pending => match reader.take() {
                    Some(SlotItem::Data(data)) => Poll::Ready(Some(Ok(data))),
                    _ => Poll::Pending,
                },
            },
            BodyStateProj::Over => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.state {
            BodyState::Own { body } => body.is_end_stream(),
            BodyState::Answered { .. } => false,
            BodyState::Over => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.state {
            BodyState::Own { body } => body.size_hint(),
            BodyState::Answered { .. } => SizeHint::default(),
            BodyState::Over => SizeHint::with_exact(0),
        }
    }
}

impl<A: Body> fmt::Debug for OnceGrpcBody<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            BodyState::Own { .. } => "own",
            BodyState::Answered { .. } => "under the lock",
            BodyState::Over => "over",
        };
        f.debug_struct("OnceGrpcBody").field("state", &state).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Full = http_body_util::Full<bytes::Bytes>;

    #[test]
    fn size_is_that_of_own_body() {
        let body = OnceGrpcBody::own(Full::from("four"));
        assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(4), false));
        let body = OnceGrpcBody::<Full>::default();
        assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(0), true));
    }
}
