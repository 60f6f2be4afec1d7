//! A response as it is kept for those who ask again.
//!
//! | part | where |
//! |---|---|
//! | what is kept | [`StoredResponse`] |
//! | which headers | [`StoredHeaders`] |
//! | the bytes in a record | `encoding` |

mod encoding;
mod headers;
mod stored;

pub use encoding::DecodeResponseError;
pub use headers::StoredHeaders;
pub use stored::StoredResponse;
