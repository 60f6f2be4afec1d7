//! What viewers change: each confirmed form is carried out once, and recorded.

mod command;
mod outcome;
mod perform;
mod sent;

pub(crate) use command::{Command, HOLDER};
pub(crate) use outcome::Done;
pub(crate) use perform::perform;
pub(crate) use sent::{FIELD, SentForms};
