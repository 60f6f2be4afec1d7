//! The face that lock errors have over HTTP.
//!
//! | part | where |
//! |---|---|
//! | settings | [`Http`] |
//! | why a request was turned away, and what it is answered | [`Rejection`], [`OnReject`] |
//! | the future of a request, the body of a response | [`HttpFuture`], [`HttpBody`] |
//! | the header that carries the fencing token | `token_header` |
//! | a body that is polled under the lock, whatever the face | `held_body` |

mod body;
mod face;
mod future;
pub(super) mod held_body;
mod reject;
mod token_header;

pub use body::{BodyError, HttpBody};
pub use face::Http;
pub use future::HttpFuture;
pub use reject::{OnReject, Problems, Rejection};
