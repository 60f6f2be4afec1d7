//! What viewers may do: asked for on one page, done by a POST of its form.

mod ask;
mod failure;
mod form;
mod perform;

pub(crate) use ask::ask;
pub(crate) use perform::perform;
