//! From a request to a page, its JSON twin, or an action.

mod answer;
mod get;
#[cfg(feature = "axum")]
mod mount;
mod post;

pub(crate) use answer::answer;
