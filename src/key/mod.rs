//! Keys of HTTP requests: the part of a request that names its resource.
//!
//! | key | what names the resource |
//! |---|---|
//! | [`header`] | the value of a header |
//! | [`path_segment`] | a segment of the path, by its place |
//! | `path_param` (feature `axum`) | a parameter of the matched route, by its name |
//! | [`query`] | a parameter of the query |
//! | [`method_and_path`] | the method and the path |
//! | [`idempotency_key`] | the value of `Idempotency-Key`, with or without quotes |
//! | [`json_pointer`] | a value inside of a JSON body: a [`BodyKey`] |
//! | [`form_field`] | a field of a form in the body: a [`BodyKey`] |
//! | [`extension`] | a value that a layer outside inserted, such as the caller's account |
//! | [`constant`] | the same name for every request |
//! | [`from_fn`], [`from_body_fn`] | the result of a closure over the head, or over the body too |
//! | [`joined`] | several of these, as one name |
//! | [`all`] | several of these: locked all or none |
//!
//! Each is a [`Key`], whose methods change the names ([`parsed`](Key::parsed),
//! [`prefixed`](Key::prefixed), [`hashed`](Key::hashed), [`hashed_with`](Key::hashed_with)) and select
//! the requests that need a lock ([`optional`](Key::optional), [`only`](Key::only),
//! [`when`](Key::when)). Any closure over the request is a [`ResourceKey`](crate::layer::ResourceKey) too.
//!
//! Names are text. For a handler that takes numbers, `42`, `042` and `+42` are three names and one account:
//! use [`parsed`](Key::parsed).
//!
//! With the feature `axum`, `path_segment` and `method_and_path` read the path as it was sent, also inside
//! nested routers; without it, the rest that the router left. Programs that share locks by these keys all
//! need the feature, or none may have it: under nested routers the names differ.
//!
//! A name has 1 to 512 bytes and no control characters; a request with another one is a bad request. No
//! error quotes the request.
//!
//! ```
//! use http::Method;
//! use tower_redlock::{Redlock, RedlockLayer, key};
//!
//! # let redlock = Redlock::embedded();
//! // POST /accounts/42/withdraw locks `account:42`; reading needs no lock.
//! let key = key::path_segment(1).prefixed("account:").only([Method::POST, Method::DELETE]);
//! let layer = RedlockLayer::new(redlock, key).http();
//! ```

mod adapters;
mod body;
mod combinators;
mod decode;
mod form_field;
mod from_fn;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod head;
mod head_only;
mod head_sources;
mod idempotency_key;
mod json_pointer;
mod json_walk;
#[allow(clippy::module_inception)]
mod key;
mod names;
#[cfg(feature = "axum")]
mod path_param;
mod shared_for;
mod source;
#[cfg(test)]
mod tests;

pub use adapters::{Hashed, HashedWith, Only, Optional, Parsed, Prefixed, When};
pub use combinators::{All, Joined, all, joined};
pub use form_field::{FormField, form_field};
pub use from_fn::{FromBodyFn, FromFn, from_body_fn, from_fn};
pub use head::RequestHead;
pub use head_sources::{
    Constant, Extension, Header, MethodAndPath, PathSegment, Query, constant, extension, header,
    method_and_path, path_segment, query,
};
pub use idempotency_key::{IdempotencyKey, MAX_IDEMPOTENCY_KEY_BYTES, idempotency_key};
#[cfg(feature = "once")]
pub(crate) use json_pointer::pointer_steps;
pub use json_pointer::{JsonPointer, json_pointer};
pub use key::Key;
#[cfg(feature = "axum")]
pub use path_param::{PathParam, path_param};
pub use shared_for::SharedForHead;
pub use source::{BodyKey, BodySource, Source};
