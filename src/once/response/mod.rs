//! A response in the form in which it is stored.

mod encoding;
mod headers;
mod stored;

pub use encoding::DecodeResponseError;
pub use headers::StoredHeaders;
pub use stored::StoredResponse;
