//! The face that lock errors have over HTTP.
//!
//! | part | where |
//! |---|---|
//! | settings | [`Http`] |
//! | why a request was turned away, and what it is answered | [`Rejection`], [`OnReject`] |
//! | the future of a request, the body of a response | [`HttpFuture`], [`HttpBody`] |
//! | requests whose body is read before the lock is asked for | [`ReadFirst`], [`ReadFirstFuture`] |
//! | the lock of a connection that was upgraded | [`HeldUpgrade`], [`RunUpgrade`] |
//! | a response that is read whole, for HTTP/1.0 | `gather` |
//! | what became of a request, for a layer outside | [`RequestOutcome`] |
//! | a problem body | `problem` |
//! | a body that is polled under the lock, whatever the face | `held_body` |

mod body;
mod face;
mod future;
mod gather;
pub(super) mod held_body;
mod outcome;
mod problem;
mod read_first;
mod reject;
mod upgrade;

pub use body::{BodyError, HttpBody};
pub use face::{Http, Streamed};
pub use future::HttpFuture;
pub use gather::GATHER_LIMIT;
pub use outcome::RequestOutcome;
pub(crate) use problem::{problem, problem_of};
pub use read_first::{DEFAULT_BODY_TIMEOUT, ReadFirst, ReadFirstFuture};
pub(crate) use reject::in_whole_seconds;
pub use reject::{OnReject, Problems, Rejection};
pub use upgrade::{HeldUpgrade, RunUpgrade};
