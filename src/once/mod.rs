//! Work that runs once per key: redelivered webhooks, repeated requests.
//!
//! A key is free; then *in progress*, under a renewed lock with a hard stop and a fencing token; then
//! *done*: a majority of the nodes stores its record, by default for 96 hours. After a crash the key is
//! free when the lock's TTL ends.
//!
//! ```
//! use tower_redlock::{once::{Once, OnceError}, Redlock};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), OnceError<std::io::Error>> {
//! let redlock = Redlock::embedded();
//! let ship = || redlock.once("order:7").run(|_| async { Ok::<_, std::io::Error>("shipped") });
//! assert!(matches!(ship().await?, Once::Ran("shipped")));
//! assert!(matches!(ship().await?, Once::AlreadyDone { .. }));
//! # Ok(())
//! # }
//! ```
//!
//! # The end of the work
//!
//! | the work | the key | [`Once`] or [`OnceError`] |
//! |---|---|---|
//! | is `Ok` | done | [`Ran`](Once::Ran) |
//! | is `Ok`, and too few nodes store the record | free, or done if one is found later | [`RanUnrecorded`](Once::RanUnrecorded) |
//! | is `Err` | free at once | [`Work`](OnceError::Work) |
//! | panics, or is dropped by the caller | free at once, or see [`UnknownOutcome`]; a WARN | |
//! | is stopped because the lock was lost | see [`UnknownOutcome`] | [`Lock`](OnceError::Lock) with [`Lost`](crate::LockError::Lost) |
//! | never ends because the process crashed | free after the TTL, or see [`UnknownOutcome`] | |
//!
//! Over HTTP and gRPC, work is not dropped when its client disconnects: it
//! [runs to its end](OnceLayer::detached).
//!
//! "Once" applies to recorded work: if the process crashes between the effect and the record, the work
//! runs again. Effects that must not happen twice need a check: see [`OnceRequest::unless`].
//!
//! # For HTTP
//!
//! For webhooks, [`OnceLayer::http`] and [`OnceLayer::by_body`]; for requests with an
//! `Idempotency-Key`, [`OnceLayer::idempotency`]. See [`http`], with examples.
//!
//! # For gRPC
//!
//! [`OnceLayer::grpc`](OnceLayer#method.grpc), with the feature `tonic`: a call is done when it ends with
//! `OK`. Layers for HTTP refuse gRPC requests, as the HTTP status of a call is always 200.

#[cfg(feature = "http")]
mod attached;
mod claim;
mod error;
mod execution;
mod future;
pub(crate) mod layer;
mod outcome;
mod record;
mod request;
mod service;
mod status;
mod telemetry;
mod terms;
mod work;

// The files of a request, in order: `layer` and `service` find the key; `claim` acquires its lock and reads its
// record; `execution` runs the work under the lock, if need be through `attached`; `record` stores its end.

pub use error::OnceError;
pub use future::OnceFuture;
pub(crate) use layer::OnceLayer;
pub use outcome::Once;
pub use request::OnceRequest;
pub use service::OnceService;
pub use status::{OnceState, OnceStatus};
pub use terms::UnknownOutcome;
pub use work::{Always, Check, Completes, Unchecked};

#[cfg(feature = "http")]
mod fingerprint;
#[cfg(feature = "tonic")]
pub mod grpc;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "http")]
mod json_form;
#[cfg(feature = "http")]
mod response;
#[cfg(feature = "http")]
mod store;

#[cfg(feature = "http")]
pub use crate::body::{DEFAULT_BODY_LIMIT, Incomplete, Intact, ReadBody, ReadBodyError, WholeBody};
#[cfg(feature = "http")]
pub use fingerprint::{Fingerprint, ParseFingerprintError};
#[cfg(feature = "http")]
pub use response::{DecodeResponseError, StoredHeaders, StoredResponse};
#[cfg(feature = "http")]
pub use store::{
    DEFAULT_STORE_CAPACITY, MemoryStore, RedisStore, RedisStoreBuilder, ResponseStore, StoreError,
    StoreFuture, StoredBy,
};
