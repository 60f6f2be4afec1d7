//! Bodies that are read whole, up to a limit, and passed on unchanged.
//!
//! A body that is read before its lock takes room of its manager's quota until the handler has read
//! it or it is dropped.

mod incomplete;
mod intact;
mod read;
mod stream;

pub use incomplete::{Incomplete, ReadBodyError};
pub use intact::Intact;
pub use read::{DEFAULT_BODY_LIMIT, ReadBody, WholeBody};
pub(crate) use stream::is_event_stream;
#[cfg(feature = "once")]
pub(crate) use stream::is_unbuffered;
