//! Bodies that are read whole, up to a limit, and passed on unchanged.

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
