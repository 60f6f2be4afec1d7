//! The settings of a once layer over gRPC.

use tonic::Status;

use crate::{
    once::{OnceLayer, http::OnceHttp},
    reject::{DefaultResponse, Rejection},
};

/// The settings of a [`OnceLayer`] over gRPC, where outcomes are statuses. Created by [`OnceLayer::grpc`].
pub type OnceGrpc<R = DefaultResponse> = OnceHttp<R, ByStatus>;

/// The mode for gRPC calls, whose status decides on their key. Created by [`OnceLayer::grpc`].
#[derive(Clone, Copy, Debug)]
pub struct ByStatus(());

impl<K, C> OnceLayer<K, C> {
    /// Makes outcomes gRPC statuses, for tonic's `Server::layer` or around one service:
    ///
    /// | what happened | status | details | does the method run? |
    /// |---|---|---|---|
    /// | the key is free | the method's | the method's | yes |
    /// | done before | `ALREADY_EXISTS`, with the metadata `once: duplicate` | `ErrorInfo`: `DUPLICATE` | no |
    /// | another call with the key runs | `ABORTED` | `ErrorInfo`: `IN_PROGRESS`; `RetryInfo`: an estimate of when it ends | no |
    /// | its outcome is unknown, and [held](crate::once::UnknownOutcome::Hold) | `FAILED_PRECONDITION` | `ErrorInfo`: `UNKNOWN_OUTCOME` | no |
    /// | no key | `INVALID_ARGUMENT`; or see [`missing`](Self::missing) | | no |
    /// | an invalid key | `INVALID_ARGUMENT` | | no |
    /// | no quorum, too slow, shutting down | `UNAVAILABLE` | `RetryInfo`: 1 s | no |
    /// | the lock was lost while it ran, or `max_hold` was over | `UNKNOWN` | `ErrorInfo`: `LOCK_LOST` | yes, to some point |
    /// | the client disconnected | none | | yes, to its end: see [`detached`](Self::detached) |
    /// | a TTL or wait that the manager refuses, a set of names as a key | `INTERNAL` | | no |
    ///
    /// `ErrorInfo`s are of the domain `tower-redlock`, and their metadata has the `outcome`: `done`,
    /// `not-run` or `unknown`. A duplicate is not `OK`, which needs a message that this layer does not have.
    ///
    /// # The effect of a call's status
    ///
    /// A [`RequestOutcome`](crate::reject::RequestOutcome) in the extensions of the response's head takes
    /// precedence over the status: after a refusal of a `RedlockLayer` inside, over HTTP too, the key is
    /// free. Without it:
    ///
    /// | the call ends with | the key |
    /// |---|---|
    /// | `OK` | done |
    /// | `UNKNOWN`, `DEADLINE_EXCEEDED`, `INTERNAL`, `DATA_LOSS`, `CANCELLED` | unknown: see [`unknown`](OnceLayer::unknown); a WARN |
    /// | another status | free at once |
    /// | no status: its body fails, or ends without trailers | unknown; a WARN |
    /// | an error of the service, instead of a response | unknown |
    /// | an error of the service that does not become ready | free at once |
    ///
    /// [`complete_when`](OnceLayer::complete_when) replaces this table by a closure from [`tonic::Code`] to
    /// [`CallOutcome`](super::CallOutcome). Use it for a method that forwards the `UNAVAILABLE` of another
    /// server, as the call to that server may have had an effect.
    ///
    /// ```
    /// use tonic::Code;
    /// use tower_redlock::{key, once::grpc::CallOutcome, OnceLayer, Redlock};
    ///
    /// let once = OnceLayer::new(Redlock::embedded(), "orders", key::header("request-id"))
    ///     .complete_when(|code| match code {
    ///         // The order existed before.
    ///         Code::AlreadyExists => CallOutcome::Done,
    ///         Code::Unavailable => CallOutcome::Unknown,
    ///         code => code.into(),
    ///     })
    ///     .grpc();
    /// # let _ = once;
    /// ```
    ///
    /// The status is in the trailers. A stream runs under the lock of its key up to them, and they are sent
    /// when its end is recorded, or with a WARN if too few nodes store the record. A client that stops
    /// reading keeps its call in progress for `max_hold` at most; the outcome is then unknown. After a client
    /// disconnects, the layer reads the response to its end, and records the status. Of a stream it reads at
    /// most 1,024 data frames then, and no further one after 16 MiB, as nothing would slow an endless one
    /// down: its body is dropped, and the outcome is unknown. Calls with
    /// streams of requests run once too: the layer reads no message. Put the translation of gRPC-Web outside
    /// of this layer, as its trailers are part of the body. A request with a truncated message may end with
    /// one of the unknown statuses, although the method never ran.
    ///
    /// A call waits for its lock no longer than its `grpc-timeout`. The
    /// [`LockContext`](crate::LockContext) is in the request's extensions, and with those of other layers in
    /// [`LockContexts`](crate::LockContexts). Around a client's `Channel` the layer responds with the same
    /// statuses, without a request.
    pub fn grpc(self) -> OnceLayer<K, C, OnceGrpc> {
        self.map_protocol(|_| OnceHttp::new(ByStatus(())))
    }
}

/// # Calls over gRPC
impl<K, C, R> OnceLayer<K, C, OnceGrpc<R>> {
    /// Sets the closure that makes the statuses of rejected calls. Default: [`Rejection::grpc_status`], with
    /// which a call that loses its lock after its head was sent always ends. Duplicates of done work are not
    /// rejected.
    pub fn on_reject<G>(self, respond: G) -> OnceLayer<K, C, OnceGrpc<G>>
    where
        G: Fn(Rejection<'_>) -> Status,
    {
        self.map_protocol(|http| http.with_on_reject(respond))
    }
}
