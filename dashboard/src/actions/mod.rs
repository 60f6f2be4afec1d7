//! What viewers may do: asked for on one page, done by a POST of its form.

mod ask;
mod command;
mod failure;
mod form;
mod perform;
mod sent;

pub(crate) use ask::ask;
pub(crate) use perform::{Done, perform, refused};
pub(crate) use sent::{FIELD, SentForms};
