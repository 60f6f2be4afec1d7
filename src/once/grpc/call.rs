//! A gRPC call under the lock of its key: passes the response to the client while the status is awaited.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::{Arc, Weak},
    task::Poll,
};

use http::{HeaderMap, Response};
use http_body::{Body, Frame};
use tonic::Code;

use super::{CallOutcome, CompletesGrpc};
use crate::{
    layer::FailedCall,
    once::work::{EndedWork, WorkVerdict, failed},
    reject::RequestOutcome,
    sync::{self, Mutex},
};

/// The end of a call.
pub(super) enum CallEnd<A: Body> {
    /// The head has the status. Nothing was sent yet.
    Head(Response<A>),
    Trailers(HeaderMap),
    Failed(A::Error),
    /// The body ended without trailers.
    Cut,
}

/// Calls the service, and passes its response on until the status is known. Without a reader, it still
/// reads the body to its end, and drops the data.
///
/// While the slot is full, this is pending without a wake-up: the reader empties the slot and polls again,
/// and a detached call is polled first by its new task.
pub(super) async fn relay<A, E>(
    call: impl Future<Output = Result<Response<A>, FailedCall<E>>>,
    writer: SlotWriter<A>,
    complete: impl CompletesGrpc,
) -> EndedWork<CallEnd<A>, E>
where
    A: Body,
{
    let response = match call.await {
        Ok(response) => response,
        Err(error) => return failed(error, None),
    };
    // It takes precedence over the status.
    let stated = RequestOutcome::of(&response).map(CallOutcome::from);
    if let Some(by_status) = outcome_of(&complete, response.headers()) {
        return (Ok(CallEnd::Head(response)), stated.unwrap_or(by_status).into());
    }
    let (parts, body) = response.into_parts();
    writer.put(SlotItem::Head(Response::from_parts(parts, ())));
    let mut body = pin!(body);
    let end =
        loop {
            let frame = poll_fn(|cx| {
                if writer.is_full() { Poll::Pending } else { body.as_mut().poll_frame(cx) }
            });
            match frame.await.transpose() {
                Ok(Some(frame)) => match frame.into_trailers() {
                    Ok(trailers) => break CallEnd::Trailers(trailers),
                    Err(data) if writer.is_read() => writer.put(SlotItem::Data(data)),
                    // A body that is never pending takes turns with other tasks.
                    Err(_) => tokio::task::yield_now().await,
                },
                Ok(None) => break CallEnd::Cut,
                Err(error) => break CallEnd::Failed(error),
            }
        };
    let by_status = match &end {
        CallEnd::Trailers(trailers) => outcome_of(&complete, trailers),
        _ => None,
    };
    (Ok(end), stated.or(by_status).unwrap_or(CallOutcome::Unknown).into())
}

/// Returns the outcome by the status, if there is one.
fn outcome_of(complete: &impl CompletesGrpc, headers: &HeaderMap) -> Option<CallOutcome> {
    let status = headers.get("grpc-status")?;
    Some(complete.outcome(Code::from_bytes(status.as_bytes())))
}

impl From<RequestOutcome> for CallOutcome {
    fn from(outcome: RequestOutcome) -> Self {
        match outcome {
            RequestOutcome::Done => Self::Done,
            RequestOutcome::Refused => Self::NotDone,
            RequestOutcome::Unknown => Self::Unknown,
        }
    }
}

impl From<CallOutcome> for WorkVerdict {
    fn from(outcome: CallOutcome) -> Self {
        match outcome {
            CallOutcome::Done => Self::done(),
            CallOutcome::NotDone => Self::Free,
            CallOutcome::Unknown => Self::Unknown { hold: None },
        }
    }
}

/// A part of the response that is sent before the status is known.
pub(super) enum SlotItem<A: Body> {
    Head(Response<()>),
    Data(Frame<A::Data>),
}

type Slot<A> = Mutex<Option<SlotItem<A>>>;

/// The caller's side. Dropping it ends the reading.
pub(super) struct SlotReader<A: Body>(Arc<Slot<A>>);

/// The call's side, which may outlive the caller.
pub(super) struct SlotWriter<A: Body>(Weak<Slot<A>>);

/// Passes the response from a call to its caller: the head, then the data, one item at a time.
pub(super) fn slot<A: Body>() -> (SlotReader<A>, SlotWriter<A>) {
    let slot = Arc::new(Mutex::new(None));
    let writer = SlotWriter(Arc::downgrade(&slot));
    (SlotReader(slot), writer)
}

impl<A: Body> SlotReader<A> {
    pub(super) fn take(&self) -> Option<SlotItem<A>> {
        sync::lock(&self.0).take()
    }
}

impl<A: Body> SlotWriter<A> {
    /// Returns whether the caller has not taken the last item yet.
    fn is_full(&self) -> bool {
        self.0.upgrade().is_some_and(|slot| sync::lock(&slot).is_some())
    }

    /// Passes an item to the reader, or drops it without one.
    fn put(&self, item: SlotItem<A>) {
        if let Some(slot) = self.0.upgrade() {
            let before = sync::lock(&slot).replace(item);
            debug_assert!(before.is_none(), "the slot has room for one item");
        }
    }

    fn is_read(&self) -> bool {
        self.0.strong_count() > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Full = http_body_util::Full<bytes::Bytes>;

    #[test]
    fn writer_notices_dropped_reader() {
        let (reader, writer) = slot::<Full>();
        assert!(writer.is_read() && !writer.is_full());
        writer.put(SlotItem::Data(Frame::data("x".into())));
        assert!(writer.is_full());

        assert!(reader.take().is_some() && reader.take().is_none());
        writer.put(SlotItem::Data(Frame::data("x".into())));
        drop(reader);

        assert!(!writer.is_read() && !writer.is_full());
    }
}
