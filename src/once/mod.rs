//! Work that is to be done once per key: webhooks that are delivered again and again, requests that
//! are sent again.
//!
//! A key is free; then *in progress*, under a lock that is renewed while the work runs, with the hard
//! stop and the fencing token of every lock of this crate; then *done*: a majority of the nodes keeps
//! a record of it, 96 hours unless it is said otherwise. A crash gives the key back after the lock's
//! TTL.
//!
//! ```
//! use tower_redlock::{Once, OnceError, Redlock};
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
//! # What the work's end does to the key
//!
//! | the work | the key | [`Once`] or [`OnceError`] |
//! |---|---|---|
//! | is `Ok` | done | [`Ran`](Once::Ran) |
//! | is `Ok`, and too few nodes keep the record | free, or done where one is found later | [`RanUnrecorded`](Once::RanUnrecorded) |
//! | is `Err` | free at once | [`Work`](OnceError::Work) |
//! | panics, or is dropped by the caller | free at once, or see [`Unknown`]; a WARN | |
//! | is stopped, as the lock was lost | see [`Unknown`] | [`Lock`](OnceError::Lock) with [`Lost`](crate::LockError::Lost) |
//! | never ends, as the process crashed | free after the TTL, or see [`Unknown`] | |
//!
//! Requests behind the faces for HTTP and gRPC are not dropped when their client goes away: they
//! [run to their end](OnceLayer::detached).
//!
//! "Once" is about work that was recorded. Work that has its effect, and then crashes before its
//! record is kept, runs again. Effects that must not happen twice need a resource that is asked: see
//! [`OnceRequest::unless`].
//!
//! # For HTTP
//!
//! For webhooks, [`OnceLayer::http`] and [`OnceLayer::by_body`]; for requests with an
//! `Idempotency-Key`, [`OnceLayer::idempotency`]. See [`http`], with examples.
//!
//! # For gRPC
//!
//! [`OnceLayer::grpc`](OnceLayer#method.grpc), with the feature `tonic`: a call is done when it ends with
//! `OK`. The HTTP status of a gRPC call says nothing, so the faces for HTTP refuse gRPC requests.
//!
//! | part | where |
//! |---|---|
//! | responses for what becomes of webhooks and requests | [`http`] |
//! | what becomes of requests without a key; whose keys they are | [`Missing`], [`Scope`] |
//! | what a response does to its key | [`RequestOutcome`](crate::RequestOutcome), [`KeptStatuses`], [`ServerErrors`] |
//! | a body that is read whole, and handed on as it was | [`ReadBody`], [`Intact`] |
//! | whether a request is the same as the first with its key | [`Fingerprint`] |
//! | a response as it is kept, and which of its headers | [`StoredResponse`], [`StoredHeaders`] |
//! | where responses are kept | [`ResponseStore`], [`RedisStore`], [`MemoryStore`] |

mod call;
mod detach;
mod error;
mod execution;
mod future;
mod layer;
mod outcome;
mod record;
mod request;
mod service;
mod status;
mod telemetry;
mod terms;
mod work;

pub use error::OnceError;
pub use future::{OnceFuture, OnceRun};
pub use layer::{OnceLayer, Plain};
pub use outcome::Once;
pub use request::OnceRequest;
pub use service::{OnceService, ServiceCall};
pub use status::{OnceState, OnceStatus};
pub use terms::Unknown;
pub use work::{Always, Check, Completes, Unchecked, Work};

#[cfg(feature = "http")]
mod fingerprint;
#[cfg(feature = "tonic")]
pub mod grpc;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "http")]
mod response;
#[cfg(feature = "http")]
mod store;

#[cfg(feature = "http")]
pub use crate::body::{DEFAULT_BODY_LIMIT, Incomplete, Intact, ReadBody, ReadBodyError, WholeBody};
#[cfg(feature = "http")]
pub use fingerprint::{Fingerprint, ParseFingerprintError};
#[cfg(feature = "tonic")]
pub use grpc::CallOutcome;
#[cfg(feature = "http")]
pub use http::{KeptStatuses, Missing, Scope, ServerErrors};
#[cfg(feature = "http")]
pub use response::{DecodeResponseError, StoredHeaders, StoredResponse};
#[cfg(feature = "http")]
pub use store::{
    DEFAULT_STORE_CAPACITY, MemoryStore, RedisGet, RedisPut, RedisStore, RedisStoreBuilder,
    ResponseStore, StoreError, StoredBy,
};
