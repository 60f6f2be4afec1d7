//! Bodies that are read whole, up to a limit, and passed on unchanged.
//!
//! A body that is read before its lock takes room of its manager's quota until the handler has read
//! it or it is dropped.

mod incomplete;
mod read;
mod restored_body;
mod stream;
mod whole_body;

pub use incomplete::{Incomplete, ReadBodyError};
pub use read::{DEFAULT_BODY_LIMIT, ReadBody};
pub use restored_body::RestoredBody;
pub(crate) use stream::is_event_stream;
#[cfg(feature = "once")]
pub(crate) use stream::is_unbuffered;
pub use whole_body::WholeBody;
