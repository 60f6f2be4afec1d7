//! The hard stop, on a manual clock: no poll of guarded work begins at or after the end of its
//! validity.

mod ahead;
mod context;
mod deadline;
mod fixture;
mod given_back;
mod grants;
mod handed_on;
mod order;
mod stopping;
mod watchers;
