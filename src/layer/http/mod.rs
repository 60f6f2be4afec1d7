//! The face that lock errors have over HTTP.
//!
//! | part | where |
//! |---|---|
//! | settings | [`Http`] |
//! | why a request was turned away, and what it is answered | [`Rejection`], [`OnReject`] |
//! | the future of a request, the body of a response | [`HttpFuture`], [`HttpBody`] |
//! | a problem body | `problem` |
//! | a body that is polled under the lock, whatever the face | `held_body` |

mod body;
mod face;
mod future;
pub(super) mod held_body;
mod problem;
mod reject;

pub use body::{BodyError, HttpBody};
pub use face::Http;
pub use future::HttpFuture;
pub(crate) use problem::{problem, problem_of};
pub(crate) use reject::in_whole_seconds;
pub use reject::{OnReject, Problems, Rejection};
