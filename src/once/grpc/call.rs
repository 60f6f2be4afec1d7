//! A gRPC call under the lock of its key: passes the response to the client while the status is awaited.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::{Arc, Weak},
    task::Poll,
};

use bytes::Buf;
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
    /// The body ended without trailers, or was dropped, as its client had gone and it did not end.
    Cut,
}

/// Maximum number of data frames of a call that are read after its client has gone.
const MAX_UNREAD_FRAMES: u32 = 1_024;

/// Number of bytes in data frames after which a call gets no further one, once its client has gone: four
/// times the default maximum of a gRPC message.
const MAX_UNREAD_BYTES: usize = 16 << 20;

/// The data that a call sent after its client had gone. Nothing slows such a call down, so it has a limit.
#[derive(Debug, Default)]
struct UnreadData {
    frames: u32,
    bytes: usize,
}

impl UnreadData {
    /// Counts a frame. Returns false if the limit was reached before it: the one message of a unary call is
    /// accepted whatever its size.
    fn take(&mut self, bytes: usize) -> bool {
        if self.frames >= MAX_UNREAD_FRAMES || self.bytes >= MAX_UNREAD_BYTES {
            return false;
        }
        self.frames += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        true
    }
}

/// Calls the service, and passes its response on until the status is known. Without a reader, it still
/// reads the body to its end, and drops the data; the body of a stream with much more of it is dropped.
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
    let mut unread = UnreadData::default();
    let end =
        loop {
            let frame = poll_fn(|cx| {
                if writer.is_full() { Poll::Pending } else { body.as_mut().poll_frame(cx) }
            });
            match frame.await.transpose() {
                Ok(Some(frame)) => match frame.into_trailers() {
                    Ok(trailers) => break CallEnd::Trailers(trailers),
                    Err(data) if writer.is_read() => writer.put(SlotItem::Data(data)),
                    Err(data) if unread.take(data.data_ref().map_or(0, Buf::remaining)) => {
                        // A body that is never pending takes turns with other tasks.
                        tokio::task::yield_now().await;
                    }
                    Err(_) => break CallEnd::Cut,
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
    use std::convert::Infallible;

    use http_body_util::{BodyExt, StreamBody};

    use super::*;
    use crate::once::Always;

    type Full = http_body_util::Full<bytes::Bytes>;

    /// Without a reader.
    fn ended<A: Body>(body: A) -> (CallEnd<A>, WorkVerdict) {
        let (reader, writer) = slot::<A>();
        drop(reader);
        let call = std::future::ready(Ok::<_, FailedCall<()>>(Response::new(body)));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (end, verdict) = runtime.block_on(relay(call, writer, Always::default()));
        (end.unwrap_or_else(|()| panic!("the call has no error")), verdict)
    }

    fn ok() -> HeaderMap {
        HeaderMap::from_iter([("grpc-status".parse().unwrap(), "0".parse().unwrap())])
    }

    #[test]
    fn unread_message_of_any_size_is_done() {
        let message = Full::from(vec![0; 2 * MAX_UNREAD_BYTES]);

        let (end, verdict) = ended(message.with_trailers(async { Some(Ok(ok())) }));

        assert!(matches!(end, CallEnd::Trailers(_)));
        assert_eq!(verdict, WorkVerdict::done());
    }

    #[test]
    fn unread_stream_is_done_up_to_its_limit() {
        let frames = |count: u32, bytes: usize| {
            let frame = move |_| Frame::data(bytes::Bytes::from(vec![0; bytes]));
            let frames = (0..count).map(frame).chain([Frame::trailers(ok())]);
            let frames: Vec<Result<_, Infallible>> = frames.map(Ok).collect();
            StreamBody::new(futures_util::stream::iter(frames))
        };
        let unknown = WorkVerdict::Unknown { hold: None };

        for (count, bytes, verdict) in [
            (MAX_UNREAD_FRAMES, 1, WorkVerdict::done()),
            (MAX_UNREAD_FRAMES + 1, 1, unknown.clone()),
            (16, 1 << 20, WorkVerdict::done()),
            (17, 1 << 20, unknown),
        ] {
            assert_eq!(ended(frames(count, bytes)).1, verdict, "{count} of {bytes}");
        }
    }

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
