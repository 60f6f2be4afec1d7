//! How much the nodes may keep of what one manager has them record.
//!
//! | part | where |
//! |---|---|
//! | the bounds, and what is counted against them | [`Quota`], `window` |
//! | what one lease has taken of it | [`Charge`] |
//! | how much memory the servers have | `servers` |

mod charge;
#[allow(clippy::module_inception)]
mod quota;
mod servers;
mod window;

pub(crate) use charge::Charge;
pub(crate) use quota::{Quota, RecordBounds};
