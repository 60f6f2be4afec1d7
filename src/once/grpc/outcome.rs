//! What a call's status does to its key.

use tonic::Code;

use crate::once::Always;

/// What became of the work of a call, as its status tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CallOutcome {
    /// It is done: that is recorded, and duplicates of the call do not run.
    Done,
    /// It is not done, and can be tried again: the key is free at once.
    NotDone,
    /// Nobody knows how far it came: see [`UnknownOutcome`](crate::once::UnknownOutcome). A WARN says so.
    Unknown,
}

impl From<Code> for CallOutcome {
    /// What a status says where [`complete_when`](crate::OnceLayer::complete_when) does not say
    /// anything else.
    ///
    /// `OK` is done. `UNKNOWN`, `DEADLINE_EXCEEDED`, `INTERNAL`, `DATA_LOSS` and `CANCELLED` are unknown:
    /// they may come when the work has had its effect. With the others the service says that it did
    /// not do the work, or, by `ABORTED` and `UNAVAILABLE`, that the call can be sent again.
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

/// Tells what the status of a call means for its key: closures from [`Code`] to [`CallOutcome`] do
/// ([`complete_when`](crate::OnceLayer::complete_when)); without one, [`CallOutcome::from`].
///
/// Not asked where the response says by itself what became of the call
/// ([`RequestOutcome`](crate::reject::RequestOutcome)). Without that, a call that ends without a status is unknown.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say what a gRPC status means",
    note = "`complete_when` of a layer with `.grpc()` takes a closure from `tonic::Code` to \
            `once::grpc::CallOutcome`; `code.into()` is what the layer says without one"
)]
pub trait CompletesGrpc {
    /// What became of the work.
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
