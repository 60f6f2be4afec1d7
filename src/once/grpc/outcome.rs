//! The effect of a call's status on its key.

use tonic::Code;

use crate::once::Always;

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CallOutcome {
    /// The call is done. It is recorded, and duplicates do not run.
    Done,
    /// The call is not done. Its key is free at once.
    NotDone,
    /// The call may have had an effect: see [`UnknownOutcome`](crate::once::UnknownOutcome). A WARN is
    /// logged.
    Unknown,
}

impl From<Code> for CallOutcome {
    /// Converts the status of a call without [`complete_when`](crate::OnceLayer::complete_when).
    ///
    /// `OK` is done. `UNKNOWN`, `DEADLINE_EXCEEDED`, `INTERNAL`, `DATA_LOSS` and `CANCELLED` are unknown:
    /// the work may have had its effect. After the others the work was not done, or, by `ABORTED` and
    /// `UNAVAILABLE`, the call can be repeated.
    ///
    /// Source: *Status codes and their use in gRPC* (doc/statuscodes.md of grpc/grpc).
    fn from(code: Code) -> Self {
        match code {
            Code::Ok => Self::Done,
            Code::Unknown
            | Code::DeadlineExceeded
            | Code::Internal
            | Code::DataLoss
            | Code::Cancelled => Self::Unknown,
            Code::InvalidArgument
            | Code::NotFound
            | Code::AlreadyExists
            | Code::PermissionDenied
            | Code::ResourceExhausted
            | Code::FailedPrecondition
            | Code::Aborted
            | Code::OutOfRange
            | Code::Unimplemented
            | Code::Unavailable
            | Code::Unauthenticated => Self::NotDone,
        }
    }
}

/// Decides by the status of a call on its outcome. Implemented by closures from [`Code`] to [`CallOutcome`],
/// for [`complete_when`](crate::OnceLayer::complete_when); without one, the layer uses
/// [`CallOutcome::from`].
///
/// Not called if the response has a [`RequestOutcome`](crate::reject::RequestOutcome). Otherwise a call that
/// ends without a status has an unknown outcome.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say what a gRPC status means",
    note = "`complete_when` of a layer with `.grpc()` takes a closure from `tonic::Code` to \
            `once::grpc::CallOutcome`; `code.into()` is what the layer says without one"
)]
pub trait CompletesGrpc {
    /// Returns the outcome of a call with this status.
    fn outcome(&self, code: Code) -> CallOutcome;
}

impl CompletesGrpc for Always {
    fn outcome(&self, code: Code) -> CallOutcome {
        code.into()
    }
}

impl<F: Fn(Code) -> CallOutcome> CompletesGrpc for F {
    fn outcome(&self, code: Code) -> CallOutcome {
        self(code)
    }
}
