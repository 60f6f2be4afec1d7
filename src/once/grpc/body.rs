//! The body of a response to a gRPC call with a key.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use pin_project::pin_project;

use super::{
    call::Answered,
    relay::End,
    slot::{Out, Reader},
};
use crate::{
    error::LockError,
    once::outcome::OnceOutcome,
    reject::{RejectReason, Rejection},
};

/// The body of a response behind [`OnceLayer::grpc`](crate::OnceLayer::grpc): the service's own,
/// which is polled under the lock of its key, or nothing for a call that did not run.
///
/// Its trailers go out when it is recorded what they say. A call that outlives the lock ends with the
/// status of a lost lock, as trailers.
///
/// # Cancel safety
///
/// Where it is dropped before its end, the service's body is read to its end, and what that says is
/// recorded, unless [`detached`](crate::OnceLayer::detached) says something else.
#[pin_project]
pub struct OnceGrpcBody<A: Body> {
    #[pin]
    state: BodyState<A>,
}

#[pin_project(project = BodyStateProj)]
enum BodyState<A: Body> {
    /// The service's own: without a lock, or behind a head with the status.
    Own {
        #[pin]
        body: A,
    },
    Answered {
        /// Dropped first, so that the call knows that nobody reads.
        reader: Reader<A>,
        call: Pin<Box<dyn Answered<A>>>,
    },
    Over,
}

impl<A: Body> OnceGrpcBody<A> {
    pub(super) const fn own(body: A) -> Self {
        Self { state: BodyState::Own { body } }
    }

    pub(super) fn answered(reader: Reader<A>, call: Pin<Box<dyn Answered<A>>>) -> Self {
        Self { state: BodyState::Answered { reader, call } }
    }
}

/// An empty body: for layers outside that answer by themselves.
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
        let end = match state.as_mut().project() {
            BodyStateProj::Own { body } => return body.poll_frame(cx),
            BodyStateProj::Answered { reader, call } => match call.as_mut().poll_end(cx) {
                Poll::Ready(end) => end,
                Poll::Pending => {
                    let Some(Out::Data(data)) = reader.take() else { return Poll::Pending };
                    return Poll::Ready(Some(Ok(data)));
                }
            },
            BodyStateProj::Over => return Poll::Ready(None),
        };
        state.set(BodyState::Over);
        Poll::Ready(match end {
            Ok(OnceOutcome::Ran(made) | OnceOutcome::Unrecorded(made, _)) => match made.end {
                End::Trailers(trailers) => Some(Ok(Frame::trailers(trailers))),
                End::Failed(error) => Some(Err(error)),
                End::Cut | End::Head(_) => None,
            },
            Ok(OnceOutcome::Done { .. } | OnceOutcome::Busy { .. }) => None,
            Err(error) => Some(Ok(Frame::trailers(trailers(&error)))),
        })
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

/// What a call ends with that lost its lock behind its head.
fn trailers(error: &LockError) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    let rejection = Rejection::new(RejectReason::Lock(error), None);
    // The texts of a rejection fit into headers.
    let _ = rejection.grpc_status().add_header(&mut trailers);
    trailers
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
