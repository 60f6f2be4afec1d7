//! For the service that *owns* a resource: turns away requests of holders that were overtaken.
//!
//! A holder that was paused past its lock's validity does not know it, and its next write may come
//! after the new holder's. Only the resource itself can turn that write away: holders send their
//! [fencing token](crate::FencingToken) along with each request, and a [`FencingLayer`] remembers
//! the newest token that it has seen for each resource.
//!
//! * A request with an older token is turned away, and does not reach the service.
//! * A request with the same token passes: a holder may write as often as it likes.
//! * A request that is still running when a newer token comes is dropped, and never polled again.
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
//! * **One process.** What is remembered is in the memory of this process, for all clones and
//!   services of one layer. It is gone after a restart, and replicas of the service do not share
//!   it.
//! * **Bounded memory.** See [`FencingLayer::capacity`]: a resource whose entry went out accepts
//!   any token again, until a newer one is seen.
//! * **Polls.** A poll that is under way can't be stopped, nor what it has already sent to a
//!   database, nor tasks that the service spawned by itself. The response's body is not watched.
//! * **Trust.** Whoever may send a token may send one that is too large, and so shut out all
//!   others: take requests from holders only.
//!
//! None of the first three is left where the store itself checks, in the very write that the token
//! is for; the layer then saves it the work:
//!
//! ```sql
//! UPDATE accounts SET balance = $2, token = $1 WHERE id = $3 AND token <= $1
//! -- no row was updated: the token is stale
//! ```
//!
//! Source of the technique: M. Kleppmann, *How to do distributed locking* (2016).
//!
//! | part | where |
//! |---|---|
//! | settings | [`FencingLayer`] |
//! | where the token is found | [`TokenSource`] |
//! | the newest token of each resource | `memory`, `table` |
//! | one request | `call` |
//! | answers | [`FencingError`], `http`, `grpc` |

mod call;
mod error;
mod future;
#[cfg(feature = "tonic")]
pub mod grpc;
#[cfg(feature = "http")]
mod header;
#[cfg(feature = "http")]
pub mod http;
pub(crate) mod layer;
mod memory;
mod service;
mod table;
mod token;

pub use error::{Error, FencingError};
pub use future::ResponseFuture;
#[cfg(feature = "http")]
pub use header::DEFAULT_HEADER;
pub(crate) use layer::FencingLayer;
pub use layer::{DEFAULT_CAPACITY, Plain};
pub use service::FencingService;
pub use token::{DefaultHeader, IntoToken, TokenError, TokenSource};
