//! Bodies that are read whole, up to a limit, and passed on unchanged.

mod incomplete;
mod intact;
mod read;

pub use incomplete::{Incomplete, ReadBodyError};
pub use intact::Intact;
pub use read::{DEFAULT_BODY_LIMIT, ReadBody, WholeBody};
