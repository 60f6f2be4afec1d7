//! What each viewer may see and do.

mod action;
mod address;
mod basic;
mod extension;
mod origin;
mod viewer;

pub(crate) use action::Subject;
pub use action::{Action, Actions};
pub use address::by_address;
pub use basic::BasicAuth;
pub use extension::by_extension;
pub(crate) use origin::{is_cross_origin, is_loaded_by_another_origin};
pub(crate) use viewer::Admission;
pub use viewer::{Access, Authorize, Viewer};
