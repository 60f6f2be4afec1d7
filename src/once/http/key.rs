//! Which requests have a key: those without one, those of gRPC, and those whose body is read first.

use bytes::Bytes;
use http::{HeaderMap, header};
use http_body::Body;

use crate::{
    error::LockError,
    layer::KeyError,
    once::{ReadBody, RestoredBody},
    resource::Resource,
};

/// What happens to a request without a key.
///
/// A request whose key is invalid (empty, given twice, a body that is not JSON) is always refused. An empty body
/// has no key: an endpoint is tried out by such requests, or by one without the event's id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Missing {
    /// It is refused with 400, and does not run.
    #[default]
    Reject,
    /// It runs each time it is sent.
    Run,
}

impl Missing {
    /// Turns the error of a missing key into `None` if such requests run.
    pub(in crate::once) fn settle(
        self,
        found: Result<Option<Resource>, KeyError>,
    ) -> Result<Option<Resource>, KeyError> {
        match found {
            Err(error) if self == Self::Run && error.is_missing() => Ok(None),
            found => found,
        }
    }
}

/// Refuses a gRPC request with a key: its HTTP status is always 200, so a failure would be recorded as
/// done.
pub(super) fn refuse_grpc(
    headers: &HeaderMap,
    found: Result<Option<Resource>, KeyError>,
) -> Result<Option<Resource>, KeyError> {
    const TYPE: &[u8] = b"application/grpc";
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.as_bytes().get(..TYPE.len()));
    match found {
        Ok(Some(_)) if kind.is_some_and(|kind| kind.eq_ignore_ascii_case(TYPE)) => {
            Err(KeyError::setup(
                "this OnceLayer goes by the HTTP status, which says nothing of a gRPC call: put one with \
                 `.grpc()` (feature `tonic`) around gRPC services, or let its key be `None` for them",
            ))
        }
        found => found,
    }
}

/// Reads the body of a request. Returns its data, and the body again, unchanged.
///
/// # Errors
///
/// The error with which the request is rejected.
pub(super) async fn read_body<B: Body>(
    mut read: ReadBody<B>,
) -> Result<(Bytes, RestoredBody<B>), LockError> {
    let body = (&mut read).await.map_err(|incomplete| incomplete.lock_error())?;
    Ok((body.data().clone(), RestoredBody::from(body).holding(read.take_held())))
}
