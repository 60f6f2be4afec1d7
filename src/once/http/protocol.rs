use http::{HeaderMap, header};

use crate::{layer::KeyError, resource::Resource};

/// What was found, unless the request is of gRPC: its HTTP status is 200 whatever becomes of it, so
/// what failed would be recorded as done.
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
