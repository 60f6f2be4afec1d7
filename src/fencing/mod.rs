//! Fencing in the service that *owns* a resource: refuses requests of holders that were overtaken.
//!
//! A holder that was paused past the validity of its lock does not know that, and its next write may
//! arrive after one of the new holder. Only the resource itself can refuse it: holders send their
//! [fencing token](crate::FencingToken) along with each request, and a [`FencingLayer`] remembers
//! the newest token that it has seen for each resource.
//!
//! * A request with an older token is refused, and does not reach the service.
//! * A request with the same token passes: a holder may write any number of times.
//! * A request that is still running when a newer token arrives is dropped, and never polled again.
//!
//! ```
//! use http::{Request, Response, StatusCode};
//! use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
//! use tower_redlock::{FencingLayer, key};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let key = key::path_segment(1).prefixed("account:");
//! let mut storage = ServiceBuilder::new()
//!     .layer(FencingLayer::new(key).http())
//!     .service(service_fn(|_: Request<String>| async {
//!         Ok::<_, std::convert::Infallible>(Response::new(String::new()))
//!     }));
//! let mut write = async |token: &str| {
//!     let request = Request::put("/accounts/42").header("fencing-token", token);
//!     let response = storage.ready().await?.call(request.body("100".into())?).await?;
//!     Ok::<_, Box<dyn std::error::Error>>(response.status())
//! };
//! assert_eq!(write("7").await?, StatusCode::OK);
//! assert_eq!(write("8").await?, StatusCode::OK);
//! assert_eq!(write("7").await?, StatusCode::PRECONDITION_FAILED);
//! # Ok(())
//! # }
//! ```
//!
//! # Limits
//!
//! * **One process.** The tokens are in the memory of this process, for all clones and services of one
//!   layer. They are lost at a restart, and replicas of the service do not share them.
//! * **Bounded memory.** See [`FencingLayer::capacity`]: an evicted resource accepts any token until a
//!   newer one is seen.
//! * **Polls.** A running poll can't be stopped, nor what it has already sent to a database, nor tasks
//!   that the service spawned. The body of the response is not watched.
//! * **Trust.** A client that sends a token that is too large shuts out all others: accept requests
//!   from holders only.
//!
//! The first three do not apply where the store itself checks the token in the write; the layer then
//! reduces its load. For PostgreSQL, the crate `tower-redlock-sqlx` does that. By hand:
//!
//! ```sql
//! UPDATE accounts SET balance = $2, token = $1 WHERE id = $3 AND token <= $1
//! -- no row was updated: the token is stale
//! ```
//!
//! That protects a write. Work that reads, then waits for something, then writes what follows from it, has to leave its
//! token at the *read*: else a stale write may come after the next holder has read, and before it writes.
//!
//! ```sql
//! UPDATE stock SET token = $1 WHERE sku = $2 AND token <= $1 RETURNING items
//! -- work without an effect elsewhere; then
//! UPDATE stock SET items = $3 WHERE sku = $2 AND token = $1
//! ```
//!
//! An effect elsewhere in between, such as a payment, needs protection of its own: a holder that stalled may still
//! cause it. Send it with an idempotency key.
//!
//! Source of the technique: M. Kleppmann, *How to do distributed locking* (2016).

mod error;
mod future;
#[cfg(feature = "tonic")]
pub mod grpc;
#[cfg(feature = "http")]
pub mod http;
pub(crate) mod layer;
mod memory;
mod service;
mod table;
mod token;

pub use error::{FencingError, FencingServiceError};
pub use future::FencingFuture;
pub use layer::DEFAULT_CAPACITY;
pub(crate) use layer::FencingLayer;
pub use service::FencingService;
#[cfg(feature = "http")]
pub use token::DEFAULT_HEADER;
pub use token::{DefaultHeader, IntoToken, TokenError, TokenSource};
