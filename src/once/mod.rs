//! Requests that are handled once: what is known of a request, and what is kept of its response.
//!
//! | part | where |
//! |---|---|
//! | a body that is read whole, and handed on as it was | [`ReadBody`], [`Intact`] |
//! | whether a request is the same as the first with its key | [`Fingerprint`] |
//! | a response as it is kept, and which of its headers | [`StoredResponse`], [`StoredHeaders`] |
//! | where responses are kept | [`ResponseStore`], [`MemoryStore`] |

#[cfg(feature = "http")]
mod body;
#[cfg(feature = "http")]
mod fingerprint;
#[cfg(feature = "http")]
mod response;
#[cfg(feature = "http")]
mod store;

#[cfg(feature = "http")]
pub use body::{DEFAULT_BODY_LIMIT, Incomplete, Intact, ReadBody, ReadBodyError, WholeBody};
#[cfg(feature = "http")]
pub use fingerprint::{Fingerprint, ParseFingerprintError};
#[cfg(feature = "http")]
pub use response::{DecodeResponseError, StoredHeaders, StoredResponse};
#[cfg(feature = "http")]
pub use store::{DEFAULT_STORE_CAPACITY, MemoryStore, ResponseStore, StoreError, StoredBy};
