//! A tower layer that runs each request only while the lock on its resource is held.
//!
//! ```
//! use std::{convert::Infallible, time::Duration};
//! use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
//! use tower_redlock::{LockContext, Redlock, RedlockLayer};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), tower_redlock::layer::GuardError<Infallible>> {
//! let redlock = Redlock::embedded();
//! let mut withdraw = ServiceBuilder::new()
//!     .layer(
//!         RedlockLayer::new(redlock, |account: &u64| format!("account:{account}"))
//!             .wait(Duration::from_secs(2)),
//!     )
//!     .service(service_fn(|account: u64| async move {
//!         let token = LockContext::current().expect("runs under the lock").fencing_token();
//!         Ok::<_, Infallible>(format!("{account} with token {token}"))
//!     }));
//! let answer = withdraw.ready().await?.call(42).await?;
//! assert!(answer.starts_with("42 with token "));
//! # Ok(())
//! # }
//! ```
//!
//! # A request
//!
//! One path serves all protocols. `service` finds the key; `call` acquires the lock, makes the service
//! ready and calls it (a clone stays in its place), and polls the call under a hold of
//! [`guard`](crate::guard), which moves into the response's body.

mod as_response;
#[cfg(feature = "axum")]
mod axum;
mod call;
#[cfg(feature = "tonic")]
pub mod grpc;
#[cfg(feature = "http")]
pub mod http;
mod key;
#[allow(clippy::module_inception)]
pub(crate) mod layer;
mod protocol;
mod ready_call;
mod service;
mod shared_for;
#[cfg(feature = "http")]
pub(crate) mod token_header;

pub use crate::guard::error::GuardError;
pub use as_response::AsResponse;
#[cfg(feature = "axum")]
pub use axum::{MissingHeldUpgrade, MissingLockContext};
pub use call::RedlockFuture;
pub use key::{IntoKey, KeyError, ResourceKey};
pub(crate) use layer::RedlockLayer;
pub use protocol::Plain;
#[cfg(feature = "once")]
pub(crate) use ready_call::FailedCall;
pub(crate) use ready_call::ReadyCall;
pub use service::RedlockService;
#[cfg(any(feature = "once", feature = "fencing"))]
pub(crate) use service::inner_service;
pub use shared_for::SharedFor;
