//! The hard stop, on a manual clock: no poll of guarded work begins at or after the end of its
//! validity.

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
#[path = "../support/scene.rs"]
mod scene;
mod stopping;
mod tools;
mod watchers;
