//! The call of the service, and the capture of its response.

use std::{future::Future, sync::Arc, time::Duration};

use http::Response;
use http_body::Body;

use super::{
    payload::{Payload, StoredAt},
    record::UnfinishedRecord,
    statuses::KeptStatuses,
};
use crate::{
    body::is_unbuffered,
    guard::LockContext,
    layer::{
        FailedCall,
        http::{ConnectionUse, HttpBody},
    },
    once::{
        Fingerprint, ReadBody, ResponseStore, RestoredBody, StoredHeaders, StoredResponse,
        http::{CompletesHttp, call::UPGRADED, completion::CompletionRules},
        work::{EndedWork, WorkVerdict, failed},
    },
};

/// Whether and how a response is stored.
pub(super) struct CaptureSettings<C> {
    pub(super) connection: ConnectionUse,
    pub(super) rules: CompletionRules<C>,
    pub(super) kept: KeptStatuses,
    pub(super) fingerprint: Fingerprint,
    /// Maximum size of a stored response, in bytes.
    pub(super) limit: usize,
    pub(super) headers: StoredHeaders,
    pub(super) retain: Duration,
    pub(super) store: Option<StoreEntry>,
}

/// A store, and the key of the response there.
#[derive(Clone)]
pub(super) struct StoreEntry {
    pub(super) store: Arc<dyn ResponseStore>,
    pub(super) key: Arc<str>,
}

/// Waits for the service under the lock, and reads the response's body if it must be stored and is not a
/// stream. Puts it into the store if there is one. If that takes longer than the lock lasts, the response is
/// sent without being stored.
pub(super) async fn capture<A, C, E>(
    call: impl Future<Output = Result<Response<A>, FailedCall<E>>>,
    settings: CaptureSettings<C>,
    context: LockContext,
) -> EndedWork<Response<IdempotentBody<A>>, E>
where
    A: Body,
    C: CompletesHttp<A>,
{
    let CaptureSettings { connection, rules, kept, fingerprint, limit, headers, retain, store } =
        settings;
    let response = match call.await {
        Ok(response) => response,
        Err(error) => return failed(error, rules.server_errors.hold()),
    };
    let response = match connection.without_upgrade(response, Some(context.resource()), UPGRADED) {
        Ok(response) => response,
        Err(refused) => return (Ok(connection.refuse(refused)), rules.unknown_error()),
    };
    let verdict = rules.verdict(&response, &|status| kept.contains(status));
    if !matches!(verdict, WorkVerdict::Done { .. }) {
        return (Ok(response.map(untouched)), verdict);
    }
    let (parts, body) = response.into_parts();
    let response = StoredAt::Nowhere(parts.status);
    let payload = Payload { fingerprint, response, is_pending: false };
    let mut record = UnfinishedRecord::new(context, retain, payload);
    if is_unbuffered(&parts.headers) {
        let response = Response::from_parts(parts, untouched(body));
        return (Ok(response), record.finish(None));
    }
    let room = limit.saturating_sub(headers.size(&parts.headers));
    let mut read = ReadBody::new(&parts.headers, body, room);
    let body = match record.in_time(&mut read).await {
        Some(body) => body,
        None => Err(read.stop()),
    };
    let (body, stored) = match body {
        Ok(body) => {
            let stored = StoredResponse::new(&parts, body.data().clone(), &headers);
            (RestoredBody::from(body), Some(stored).filter(|stored| stored.size() <= limit))
        }
        Err(incomplete) => (incomplete.into_body(), None),
    };
    let verdict = match (stored, store) {
        (Some(stored), Some(StoreEntry { store, key })) => {
            let put = store.put(&key, Arc::new(stored), retain, record.token());
            record.set_in_store();
            // After an error the response may be there: its token decides at the replay.
            if let Some(Err(error)) = record.in_time(put).await {
                crate::log::warn!(
                    %key, error = %error.cause(),
                    "a response could not be put into the store: if it is not there, repetitions \
                     of the request are answered without it"
                );
            }
            record.finish(None)
        }
        (stored, _) => record.finish(stored.map(StoredAt::InRecord)),
    };
    (Ok(Response::from_parts(parts, HttpBody::of_service(body, None))), verdict)
}

/// The body of a response: one that was read, one that was not, or one of the layer itself.
pub(super) type IdempotentBody<A> = HttpBody<RestoredBody<A>>;

pub(super) fn untouched<A: Body>(body: A) -> IdempotentBody<A> {
    HttpBody::of_service(RestoredBody::untouched(body), None)
}
