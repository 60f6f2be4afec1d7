//! Bounds on what one manager stores on the nodes, and on the bodies of waiting requests.
//!
//! | part | where |
//! |---|---|
//! | the bounds on records and answers | [`Quota`] |
//! | what counts against them until it expires | `window` |
//! | the share of one lease | [`Charge`] |
//! | bytes of waiting bodies | `body_room` |

#[cfg(feature = "http")]
mod body_room;
mod charge;
#[allow(clippy::module_inception, reason = "it is the quota, among its parts")]
mod quota;
mod window;

#[cfg(feature = "http")]
pub(crate) use body_room::{BodyRoom, HeldBytes, NoRoom};
pub(crate) use charge::Charge;
pub(crate) use quota::{Quota, RecordBounds};
