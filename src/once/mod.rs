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
//! | is `Ok`, and too few nodes store the record at once | done for this process, in progress for others while the lock is kept | [`RanUnrecorded`](Once::RanUnrecorded) |
//! | is `Err` | free at once, or see [`UnknownOutcome`] | [`Work`](OnceError::Work) |
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
//! # Records (R13)
//!
//! A key has a lock, and a record that lives longer. First the lock is acquired; then, under it, the
//! record is read from a quorum. A record of work that is *done* counts wherever it is found. A
//! script stores it that compares the lock's nonce first, with the end of the lock's validity as its
//! deadline: a quorum that stores it this way shows that no other client had begun. Every
//! later holder sees what a quorum keeps. What fewer nodes keep may be seen, and is then copied to
//! the others. The lock is renewed while the record is stored, and released afterwards.
//!
//! *Owed records.* The end of the work is an obligation (`lock/obligations`): what a quorum has not stored
//! is sent again as soon as a node answers, with the lock kept up to `max_hold`, and without it after that,
//! as a copy of a true record. Meanwhile this process answers repetitions from the record that it owes.
//! Once the lock has ended, another client may run the work again, which is reported.
//!
//! *Held outcomes.* If an unknown outcome must block the key, a record that the work was *begun* is
//! stored on a quorum before the work starts. It is taken back if the work did not begin, or says that it did
//! nothing, but not if it fails, is dropped or panics: so it exists after a crash, and nothing has to be
//! stored at the moment in which a lock is lost. It counts if a quorum may keep it, together with the silent
//! nodes. A copy in flight may restore what a person has just forgotten.
//!
//! *Detached work.* A call may be dropped while its handler runs, by a disconnect or a timeout. Its
//! work then moves to a task of the runtime that polled it, with its lock, and is counted for the
//! shutdown. It moves when it is dropped, not before: until then it runs in its caller's task, with
//! its task-local values. A call that panicked does not move. Services have to be `Send` for that.
//!
//! *Scope.* The scope of a key is one name. A `Resource` is a set, sorted and without duplicates,
//! which is right for locks and wrong for callers: (acme, bob) and (bob, acme) would share their
//! responses. So a set is refused, and `key::joined` keeps the parts apart.
//!
//! Invariants: only work that is done has a record of that, under the nonce of its own lock; a record is
//! never replaced by one that expires earlier; what cannot be recorded does not run.
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
pub use crate::body::{
    DEFAULT_BODY_LIMIT, Incomplete, ReadBody, ReadBodyError, RestoredBody, WholeBody,
};
#[cfg(feature = "http")]
pub use fingerprint::{Fingerprint, ParseFingerprintError};
#[cfg(feature = "http")]
pub use response::{DecodeResponseError, StoredHeaders, StoredResponse};
#[cfg(feature = "http")]
pub use store::{
    DEFAULT_STORE_BYTES, DEFAULT_STORE_CAPACITY, MemoryStore, RedisStore, RedisStoreBuilder,
    ResponseStore, StoreError, StoreFuture, StoredBy,
};
