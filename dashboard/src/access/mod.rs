//! Who may see and do what.

mod basic;
mod extension;
mod origin;
mod viewer;

pub use basic::BasicAuth;
pub use extension::by_extension;
pub(crate) use origin::is_cross_origin;
pub use viewer::{Access, Action, Actions, Authorize, Viewer};
