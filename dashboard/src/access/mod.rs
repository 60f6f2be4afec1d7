//! Who may see and do what.

mod address;
mod basic;
mod extension;
mod origin;
mod viewer;

pub use address::by_address;
pub use basic::BasicAuth;
pub use extension::by_extension;
pub(crate) use origin::is_cross_origin;
pub use viewer::{Access, Action, Actions, Authorize, Viewer};
