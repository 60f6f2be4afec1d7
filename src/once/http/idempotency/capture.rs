//! The call of the service, and the capture of its response.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use http::{Request, Response, response::Parts};
use http_body::Body;
use pin_project::pin_project;
use tower_service::Service;

use super::{
    record::{Payload, StoredAt, UnfinishedRecord},
    statuses::KeptStatuses,
};
use crate::{
    body::is_unbuffered,
    guard::LockContext,
    layer::ReadyCall,
    once::{
        Completes, Fingerprint, Intact, ReadBody, ResponseStore, StoredHeaders, StoredResponse,
        Work,
        http::{CompletesHttp, completion::CompletionRules, future::HttpCall},
        work::WorkVerdict,
    },
};

/// Calls the service and captures its response.
pub(super) struct CapturingCall<S, B: Body, C, St> {
    pub(super) call: HttpCall<S, Intact<B>>,
    pub(super) settings: CaptureSettings<C, St>,
}

/// Whether and how a response is stored.
pub(super) struct CaptureSettings<C, St> {
    pub(super) rules: CompletionRules<C>,
    pub(super) kept: KeptStatuses,
    pub(super) fingerprint: Fingerprint,
    pub(super) limit: usize,
    pub(super) headers: StoredHeaders,
    pub(super) retain: Duration,
    pub(super) store: Option<StoreEntry<St>>,
}

/// A store, and the key of the response there.
pub(super) struct StoreEntry<St> {
    pub(super) store: Arc<St>,
    pub(super) key: Arc<str>,
}

impl<St> Clone for StoreEntry<St> {
    fn clone(&self) -> Self {
        Self { store: Arc::clone(&self.store), key: Arc::clone(&self.key) }
    }
}

impl<S, B, A, C, St> Work for CapturingCall<S, B, C, St>
where
    S: Service<Request<Intact<B>>, Response = Response<A>>,
    B: Body,
    A: Body,
    C: CompletesHttp<A>,
    St: ResponseStore,
{
    type Future = Capture<ReadyCall<S, Request<Intact<B>>>, A, C, St>;
    type Success = Captured<A>;
    type Failure = S::Error;

    fn begin(self, context: LockContext) -> Self::Future {
        let settings = Some((self.settings, context.clone()));
        Capture { state: CaptureState::Calling { future: self.call.begin(context), settings } }
    }
}

/// A response to be sent, what happens to its key, and the payload of its record.
#[derive(Debug)]
pub(super) struct Captured<A: Body> {
    pub(super) response: Response<Intact<A>>,
    verdict: WorkVerdict,
    record: Option<Arc<[u8]>>,
}

/// Completes the key as the [`Captured`] response says.
#[derive(Clone, Copy, Debug)]
pub(super) struct CapturedCompletion;

impl<A: Body> Completes<Captured<A>> for CapturedCompletion {
    fn completes(&self, captured: &Captured<A>) -> bool {
        captured.verdict == WorkVerdict::Done
    }

    fn verdict(&self, captured: &Captured<A>) -> WorkVerdict {
        captured.verdict
    }

    fn payload(&self, captured: &Captured<A>) -> Arc<[u8]> {
        captured.record.clone().unwrap_or_default()
    }

    fn is_settled(&self, payload: &[u8]) -> bool {
        Payload::decode(payload).is_none_or(|payload| !payload.is_pending)
    }
}

/// Calls the service, reads the response's body if it is to be stored and no stream, and puts it into the store
/// if there is one. If that takes longer than the lock lasts, the response is sent without being stored.
#[pin_project]
pub(super) struct Capture<F, A: Body, C, St: ResponseStore> {
    #[pin]
    state: CaptureState<F, A, C, St>,
}

#[allow(clippy::large_enum_variant, reason = "most requests read a body")]
#[pin_project(project = CaptureStateProj)]
enum CaptureState<F, A: Body, C, St: ResponseStore> {
    Calling {
        #[pin]
        future: F,
        /// `None` for a request without a key.
        settings: Option<(CaptureSettings<C, St>, LockContext)>,
    },
    Reading {
        read: ReadBody<A>,
        answered: Option<(Parts, CaptureSettings<C, St>, UnfinishedRecord)>,
    },
    Putting {
        #[pin]
        put: St::Put,
        answered: Option<(Response<Intact<A>>, UnfinishedRecord)>,
        key: Arc<str>,
    },
    Over,
}

impl<F, A: Body, C, St: ResponseStore> Capture<F, A, C, St> {
    /// Captures nothing.
    pub(super) const fn unguarded(future: F) -> Self {
        Self { state: CaptureState::Calling { future, settings: None } }
    }
}

impl<F, E, A, C, St> Future for Capture<F, A, C, St>
where
    F: Future<Output = Result<Response<A>, E>>,
    A: Body,
    C: CompletesHttp<A>,
    St: ResponseStore,
{
    type Output = Result<Captured<A>, E>;

    /// # Panics
    ///
    /// If polled again after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        const AFTER: &str = "polled after it was ready";
        let mut state = self.project().state;
        loop {
            match state.as_mut().project() {
                CaptureStateProj::Calling { future, settings } => {
                    let response = ready!(future.poll(cx))?;
                    let verdict = settings.as_ref().map_or(WorkVerdict::Free, |(settings, _)| {
                        let is_kept = |status| settings.kept.contains(status);
                        settings.rules.verdict(&response, &is_kept)
                    });
                    let Some((settings, context)) =
                        settings.take().filter(|_| verdict == WorkVerdict::Done)
                    else {
                        state.set(CaptureState::Over);
                        let response = response.map(Intact::untouched);
                        return Poll::Ready(Ok(Captured { response, verdict, record: None }));
                    };
                    let (parts, body) = response.into_parts();
                    let payload = Payload {
                        fingerprint: settings.fingerprint,
                        response: StoredAt::Nowhere(parts.status),
                        is_pending: false,
                    };
                    let record = UnfinishedRecord::new(context, settings.retain, payload);
                    if is_unbuffered(&parts.headers) {
                        state.set(CaptureState::Over);
                        let response = Response::from_parts(parts, Intact::untouched(body));
                        let record = record.finish(None);
                        return Poll::Ready(Ok(Captured { response, verdict, record }));
                    }
                    let rest = settings.limit.saturating_sub(settings.headers.size(&parts.headers));
                    let read = ReadBody::new(&parts.headers, body, rest);
                    state.set(CaptureState::Reading {
                        read,
                        answered: Some((parts, settings, record)),
                    });
                }
                CaptureStateProj::Reading { read, answered } => {
                    let body = match Pin::new(&mut *read).poll(cx) {
                        Poll::Ready(body) => body,
                        Poll::Pending => {
                            let (_, _, record) = answered.as_mut().expect(AFTER);
                            ready!(record.poll_timeout(cx));
                            Err(read.stop())
                        }
                    };
                    let (parts, settings, mut record) = answered.take().expect(AFTER);
                    let (response, stored) = match body {
                        Ok(body) => {
                            let data = body.data().clone();
                            let stored = StoredResponse::new(&parts, data, &settings.headers);
                            let response = Response::from_parts(parts, Intact::from(body));
                            (response, Some(stored).filter(|it| it.size() <= settings.limit))
                        }
                        Err(incomplete) => {
                            (Response::from_parts(parts, incomplete.into_body()), None)
                        }
                    };
                    match (stored, settings.store) {
                        (Some(stored), Some(StoreEntry { store, key })) => {
                            let stored = Arc::new(stored);
                            let put = store.put(&key, stored, settings.retain, record.token());
                            record.set_in_store();
                            let answered = Some((response, record));
                            state.set(CaptureState::Putting { put, answered, key });
                        }
                        (stored, _) => {
                            state.set(CaptureState::Over);
                            let record = record.finish(stored.map(StoredAt::InRecord));
                            let verdict = WorkVerdict::Done;
                            return Poll::Ready(Ok(Captured { response, verdict, record }));
                        }
                    }
                }
                CaptureStateProj::Putting { put, answered, key } => {
                    let put = put.poll(cx);
                    if put.is_pending() {
                        let (_, record) = answered.as_mut().expect(AFTER);
                        ready!(record.poll_timeout(cx));
                    }
                    let (response, record) = answered.take().expect(AFTER);
                    // After an error the response may be there: its token decides at the replay.
                    if let Poll::Ready(Err(error)) = put {
                        crate::log::warn!(
                            key = %key, error = %error.cause(),
                            "a response could not be put into the store: if it is not there, repetitions \
                             of the request are answered without it"
                        );
                    }
                    let record = record.finish(None);
                    state.set(CaptureState::Over);
                    return Poll::Ready(Ok(Captured {
                        response,
                        verdict: WorkVerdict::Done,
                        record,
                    }));
                }
                CaptureStateProj::Over => panic!("{AFTER}"),
            }
        }
    }
}
