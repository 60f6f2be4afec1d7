//! The hard stop, on a clock that is moved by hand: no poll of guarded work begins at or after the
//! end of its validity, whoever wakes it.

#[cfg(feature = "testing")]
mod ahead;
mod context;
mod deadline;
mod given_back;
mod grants;
mod handed_on;
mod order;
mod stopping;
mod tools;
mod watchers;
