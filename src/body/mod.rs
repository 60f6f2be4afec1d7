//! A body that is read whole, up to a bound, and handed on as it was.
//!
//! | part | where |
//! |---|---|
//! | reading | [`ReadBody`] |
//! | what was read, or why it was not | [`WholeBody`], [`Incomplete`] |
//! | the body that is handed on | [`Intact`] |

mod incomplete;
mod intact;
mod read;
mod whole;

pub use incomplete::{Incomplete, ReadBodyError};
pub use intact::Intact;
pub use read::{DEFAULT_BODY_LIMIT, ReadBody};
pub use whole::WholeBody;
