//! Requests with an `Idempotency-Key`, whose first response is replayed.
//!
//! *Names.* A layer has a name without a colon, and its keys are `layer:name:key`, so one event that two
//! layers handle has two records. Those of `Idempotency-Key` begin with `idempotency:`, and the
//! application's own with neither. So what a client sends cannot be another layer's key, or one of the
//! application. After the layer's name
//! follow the host between `//` and `/`, unless all hosts share their keys, and each part of the
//! scope with its length, after the number of parts if there is more than one; so no two lists of
//! parts make one name, and a person can still write it. The host belongs to the scope because one
//! principal may have accounts at several tenants' hosts. It is the request's target as HTTP defines
//! it; headers that proxies add are ignored.
//!
//! *Fingerprints.* Whether a request repeats the first one with its key is decided by a hash of its
//! method, target and body. With headers, or with a function of the user's, another text precedes the
//! hashed data. So no record made under one setting matches another setting: if a setting changes, a
//! retry of an earlier request is refused rather than answered with what may be another request's
//! response.
//!
//! *One response for all clients.* A stored response is sent to clients that differ. So the layer
//! requests one that every client can read: complete, and with `accept-encoding: identity`; removing
//! the header would allow any encoding. What differs by client (encodings, CORS, request ids) belongs
//! to layers outside, which see the first response and its replays alike.
//!
//! Which statuses are stored: `docs/decisions/010-http-responses.md`.

mod accept_encoding;
mod capture;
mod fingerprint;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod host;
mod key;
mod payload;
mod record;
mod replay;
mod service;
mod settings;
mod statuses;

pub use key::{Scope, Unscoped};
pub use settings::{DEFAULT_HOLD, DEFAULT_RESPONSE_LIMIT, Idempotency};
pub use statuses::KeptStatuses;
