//! A response in the form in which it is stored.

mod headers;
mod stored;

pub use headers::StoredHeaders;
pub use stored::{DecodeResponseError, StoredResponse};
