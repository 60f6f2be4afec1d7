//! Passes a response to the client while its status is awaited.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use http::{HeaderMap, Response};
use http_body::Body;
use pin_project::pin_project;
use tonic::Code;

use super::{
    CallOutcome, CompletesGrpc,
    slot::{Out, Writer},
};
use crate::{
    once::{Completes, work::WorkVerdict},
    reject::RequestOutcome,
    sync,
};

/// A call that has ended.
pub(super) struct Made<A: Body> {
    pub(super) end: End<A>,
    outcome: CallOutcome,
}

/// The end of a call.
pub(super) enum End<A: Body> {
    /// The head has the status. Nothing was sent yet.
    Head(Response<A>),
    Trailers(HeaderMap),
    Failed(A::Error),
    /// The body ended without trailers.
    Cut,
}

/// Completes the key by the outcome of the call.
#[derive(Clone, Copy, Debug)]
pub(super) struct ByStatus;

impl<A: Body> Completes<Made<A>> for ByStatus {
    fn completes(&self, made: &Made<A>) -> bool {
        made.outcome == CallOutcome::Done
    }

    fn verdict(&self, made: &Made<A>) -> WorkVerdict {
        match made.outcome {
            CallOutcome::Done => WorkVerdict::Done,
            CallOutcome::NotDone => WorkVerdict::Free,
            CallOutcome::Unknown => WorkVerdict::Unknown { hold: None },
        }
    }
}

/// Calls the service, and passes its response on until the status is known. Without a reader, it still
/// reads the body to its end, and drops the data.
///
/// While the slot is full, this is pending without a wake-up: the reader empties the slot and polls again,
/// and a detached call is polled first by its new task.
#[pin_project]
pub(super) struct Relay<F, A: Body, C> {
    #[pin]
    state: RelayState<F, A>,
    writer: Writer<A>,
    complete: C,
}

#[pin_project(project = RelayStateProj)]
enum RelayState<F, A> {
    Calling {
        #[pin]
        future: F,
    },
    Streaming {
        #[pin]
        body: A,
        /// The outcome that the head states.
        said: Option<CallOutcome>,
    },
    Over,
}

impl<F, A: Body, C> Relay<F, A, C> {
    pub(super) const fn new(future: F, writer: Writer<A>, complete: C) -> Self {
        Self { state: RelayState::Calling { future }, writer, complete }
    }
}

/// Returns the outcome that a head states. It takes precedence over the status.
fn said_in<B>(head: &Response<B>) -> Option<CallOutcome> {
    Some(match RequestOutcome::of(head)? {
        RequestOutcome::Done => CallOutcome::Done,
        RequestOutcome::Refused => CallOutcome::NotDone,
        RequestOutcome::Unknown => CallOutcome::Unknown,
    })
}

/// Returns the outcome by the status, if there is one.
fn outcome(complete: &impl CompletesGrpc, headers: &HeaderMap) -> Option<CallOutcome> {
    let status = headers.get("grpc-status")?;
    Some(complete.outcome(Code::from_bytes(status.as_bytes())))
}

impl<F, E, A, C> Future for Relay<F, A, C>
where
    F: Future<Output = Result<Response<A>, E>>,
    A: Body,
    C: CompletesGrpc,
{
    type Output = Result<Made<A>, E>;

    /// # Panics
    ///
    /// If polled again after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let made = loop {
            match this.state.as_mut().project() {
                RelayStateProj::Calling { future } => {
                    let response = ready!(future.poll(cx))?;
                    let said = said_in(&response);
                    if let Some(by_status) = outcome(this.complete, response.headers()) {
                        let outcome = said.unwrap_or(by_status);
                        break Made { end: End::Head(response), outcome };
                    }
                    let (parts, body) = response.into_parts();
                    this.state.set(RelayState::Streaming { body, said });
                    this.writer.put(Out::Head(Response::from_parts(parts, ())));
                }
                RelayStateProj::Streaming { body, said } => {
                    let said = *said;
                    if this.writer.is_full() {
                        return Poll::Pending;
                    }
                    let end = match ready!(body.poll_frame(cx)).transpose() {
                        Ok(Some(frame)) => match frame.into_trailers() {
                            Ok(trailers) => End::Trailers(trailers),
                            Err(data) => {
                                if !this.writer.is_read() {
                                    // A body that is never pending takes turns with other tasks.
                                    sync::wake_by_ref(cx.waker());
                                    return Poll::Pending;
                                }
                                this.writer.put(Out::Data(data));
                                continue;
                            }
                        },
                        Ok(None) => End::Cut,
                        Err(error) => End::Failed(error),
                    };
                    let by_status = match &end {
                        End::Trailers(trailers) => outcome(this.complete, trailers),
                        _ => None,
                    };
                    let outcome = said.or(by_status).unwrap_or(CallOutcome::Unknown);
                    break Made { end, outcome };
                }
                RelayStateProj::Over => panic!("polled after it was ready"),
            }
        };
        this.state.set(RelayState::Over);
        Poll::Ready(Ok(made))
    }
}
