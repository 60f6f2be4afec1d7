//! The hard stop, on a clock that is moved by hand: no poll of guarded work begins at or after the
//! end of its validity, whoever wakes it.

#[cfg(feature = "testing")]
mod ahead;
mod context;
mod deadline;
mod given_back;
mod grants;
#[path = "../support/hand_clock.rs"]
mod hand_clock;
mod handed_on;
#[path = "../support/mock_node.rs"]
mod mock_node;
mod order;
mod stopping;
mod tools;
mod watchers;
