//! Quorum locks over independent Redis servers: around the requests of a tower service, around any
//! future, or held by hand.
//!
//! * A lock is held while a majority of the servers keeps its key, and never longer than a validity
//!   that is known in advance.
//! * Guarded work is stopped *before* the validity ends, not after a failed renewal.
//! * A hung, slow or dead minority of the servers delays no client.
//! * Every lease has a greater fencing token than all leases completed before it.
//! * "Held by another", "no quorum", "too slow" and "lost" are different errors. Each names the nodes
//!   and their reasons.
//!
//! # Around a future, or by hand
//!
//! ```
//! use tower_redlock::{LockError, Redlock};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), LockError> {
//! // In production: Redlock::builder().nodes(["redis://10.0.0.1", …]).build()
//! let redlock = Redlock::embedded();
//!
//! // The future is dropped before the validity of the lock ends.
//! redlock.lock("invoice:42").run(|cx| async move { bill(cx.fencing_token().get()) }).await?;
//!
//! // Held by hand: renewed until it is released, dropped or lost.
//! let lock = redlock.lock(["account:1", "account:2"]).await?;
//! assert!(lock.is_valid());
//! lock.release().await.expect("a quorum acknowledged");
//! # Ok(())
//! # }
//! # fn bill(_token: u64) {}
//! ```
//!
//! # Around requests
//!
//! With the feature `axum`, each request runs only while its account is locked:
//!
//! ```
//! # #[cfg(feature = "axum")] {
//! use std::time::Duration;
//! use axum::{Router, routing::post};
//! use tower_redlock::{LockContext, Redlock, RedlockLayer, key};
//!
//! async fn withdraw(lock: LockContext) -> String {
//!     format!("withdrawn under token {}", lock.fencing_token())
//! }
//!
//! // POST /accounts/42/withdraw locks `account:42`.
//! let account = key::path_param("id").parsed::<u64>().prefixed("account:");
//! let locked =
//!     RedlockLayer::new(Redlock::embedded(), account).wait(Duration::from_secs(2)).http();
//! let app: Router =
//!     Router::new().route("/accounts/{id}/withdraw", post(withdraw).route_layer(locked));
//! # let _ = app;
//! # }
//! ```
//!
//! # What is where
//!
//! | task | start with |
//! |---|---|
//! | a lock around a future, or held by hand | [`Redlock::lock`] |
//! | the same for threads without a runtime | [`Redlock::blocking`] |
//! | a lock around each request | [`RedlockLayer`]; [`key`] has the names of resources |
//! | at most n requests, or n holders of a name, at a time in the whole fleet | [`RedlockLayer::slots`], [`LockOptions::slots`] |
//! | requests that read beside each other, and write alone | [`RedlockLayer::shared_for`], [`LockOptions::shared`] |
//! | work that is done once per key: webhooks, `Idempotency-Key` | [`OnceLayer`], [`Redlock::once`] |
//! | rejecting stale writers in front of a resource | [`FencingLayer`] |
//! | periodic jobs, once per tick across a fleet | [`Scheduler`] |
//! | one process that leads | [`Redlock::leader`] |
//! | the state of the servers | [`Redlock::health`], [`Redlock::ready`], [`Redlock::diagnosis`] |
//! | tests of one's own | [`testing`] |
//!
//! `docs/` in the repository has pages on requests, readers and writers, once, jobs, tests, production, guarantees, security and
//! coming from other locks; `ARCHITECTURE.md` is the map of the code, whose module docs have the rules of the algorithm.
//!
//! # Limits
//!
//! Code that blocks inside a poll, `spawn_blocking` work, and tasks that guarded work spawns cannot be
//! stopped from outside. Effects that must happen exactly once need a resource that checks the
//! [fencing token](FencingToken).
//!
//! # Metrics
//!
//! With the feature `metrics`; names of resources are never labels. A manager describes them to the recorder of
//! its time when it is built, so install a recorder before that: its exporter then shows these texts as help.
//!
#![doc = include_str!("metrics.md")]
//!
//! `docs/observability.md` in the repository has buckets, alerts and a dashboard, and the names of spans
//! and events.
//!
//! # Features
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `scheduler` | yes | [`Scheduler`]: periodic jobs, run once per tick across a fleet; [`Leader`]: one process leads |
//! | `once` | no | [`OnceLayer`] and [`Redlock::once`]: work that is done [once](mod@once) per key |
//! | `fencing` | no | [`FencingLayer`]: rejects requests with an old [fencing token](FencingToken) |
//! | `config` | no | [`Config`]: settings from any serde format |
//! | `http` | no | responses for HTTP: [`RedlockLayer::http`], [`FencingLayer::http`], [`OnceLayer::http`]; ready-made [keys](mod@key) |
//! | `cron` | no | [`Schedule::cron`]: cron expressions in time zones, with a zone database built in |
//! | `axum` | no | [`LockContext`] as an extractor, keys from the matched path |
//! | `tonic` | no | statuses for gRPC: [`RedlockLayer::grpc`], [`FencingLayer::grpc`], [`OnceLayer::grpc`] |
//! | `metrics` | no | [counters, gauges and histograms](#metrics) for the `metrics` facade |
//! | `redis-1` | no | types of `redis` 1: a [`NodeAddress`](node::redis::NodeAddress) from its `ConnectionInfo` or `Client`; `Credentials::provider`, as for Entra ID |
//! | `tls` | no | `rediss://` nodes, through rustls with ring |
//! | `testing` | no | [`testing`], for your own tests: a clock moved by hand, nodes that fail on demand |

#![cfg_attr(docsrs, feature(doc_cfg))]
// Internal modules are not feature-gated, so partial builds contain dead code. Builds with all
// features detect code that is never used.
#![cfg_attr(
    not(all(feature = "once", feature = "fencing", feature = "http", feature = "scheduler")),
    allow(dead_code, unreachable_pub, unused_imports)
)]

pub mod blocking;
#[cfg(feature = "http")]
mod body;
#[cfg(feature = "scheduler")]
mod callback;
#[cfg(feature = "config")]
mod config;
#[cfg(test)]
mod defaults;
pub mod diagnosis;
pub mod error;
pub(crate) mod events;
#[cfg(feature = "fencing")]
pub mod fencing;
#[cfg(all(
    any(test, fuzzing),
    feature = "axum",
    feature = "config",
    feature = "cron",
    feature = "fencing",
    feature = "once",
    feature = "tonic"
))]
#[doc(hidden)]
pub mod fuzzing;
pub mod guard;
#[cfg(feature = "http")]
pub mod key;
pub mod layer;
#[cfg(feature = "scheduler")]
pub mod leader;
pub mod lock;
mod log;
mod log_budget;
mod metrics;
pub mod node;
#[cfg(feature = "once")]
pub mod once;
mod random;
#[cfg(feature = "http")]
pub mod reject;
#[cfg(any(feature = "fencing", feature = "http"))]
mod request_log;
#[cfg(feature = "scheduler")]
pub mod schedule;
#[cfg(feature = "scheduler")]
pub mod scheduler;
#[cfg(redlock_sim)]
#[doc(hidden)]
pub mod switches;
#[cfg(not(redlock_sim))]
mod switches;
mod sync;
#[cfg(feature = "testing")]
pub mod testing;
pub mod time;

// Lets modules that are shared with the integration tests use the crate by its name.
#[cfg(test)]
extern crate self as tower_redlock;
#[cfg(test)]
#[path = "../tests/support/hand_clock.rs"]
mod hand_clock;

// The algorithm, by the names of its modules.
use redlock_core::{hash, membership, protocol, quorum, resource, stripe, token};

#[cfg(feature = "config")]
pub use config::config::Config;
pub use error::lock::LockError;
#[cfg(feature = "fencing")]
pub use fencing::layer::FencingLayer;
#[cfg(feature = "http")]
pub use guard::contexts::LockContexts;
pub use guard::{context::LockContext, error::GuardError};
pub use layer::layer::RedlockLayer;
#[cfg(feature = "scheduler")]
pub use leader::{candidate::Leader, term::Term};
pub use lock::{
    builder::RedlockBuilder, lock::Lock, options::LockOptions, redlock::Redlock,
    request::LockRequest,
};
#[cfg(feature = "once")]
pub use once::layer::OnceLayer;
#[doc(inline)]
pub use redlock_core::resource::Resource;
#[cfg(feature = "scheduler")]
#[doc(inline)]
pub use redlock_core::schedule::Schedule;
#[doc(inline)]
pub use redlock_core::token::FencingToken;
#[cfg(feature = "scheduler")]
pub use scheduler::{context::JobContext, handle::SchedulerHandle, job::Job, scheduler::Scheduler};

/// The examples of the README and of these pages are tests.
#[cfg(all(
    doctest,
    feature = "axum",
    feature = "config",
    feature = "cron",
    feature = "fencing",
    feature = "once",
    feature = "scheduler"
))]
mod pages {
    #[doc = include_str!("../README.md")]
    struct ReadmePage;

    #[doc = include_str!("../docs/requests.md")]
    struct RequestsPage;

    #[doc = include_str!("../docs/readers-writers-limits.md")]
    struct ReadersWritersLimitsPage;

    #[doc = include_str!("../docs/jobs.md")]
    struct JobsPage;

    #[doc = include_str!("../docs/once.md")]
    struct OncePage;

    #[doc = include_str!("../docs/production.md")]
    struct ProductionPage;

    #[doc = include_str!("../docs/migration.md")]
    struct MigrationPage;

    #[cfg(feature = "testing")]
    #[doc = include_str!("../docs/testing.md")]
    struct TestingPage;
}
