//! The guarantees of the feature `testing`: time that a test moves, nodes that fail on demand.

mod claims;
mod clock;
#[cfg(feature = "scheduler")]
mod contexts;
mod crowds;
mod diagnosis;
mod failures;
mod frozen;
mod goodput;
#[path = "../support/hand_clock.rs"]
mod hand_clock;
mod load;
mod managers;
mod memory;
#[path = "../support/mock_node.rs"]
mod mock_node;
mod outages;
mod outvoted;
mod pauses;
mod probations;
mod seeds;
mod sets;
mod shared_views;
mod sharing;
mod slot_waits;
mod slots;
mod tasks;
mod threads;
mod timers;
mod turns;
mod wakeups;
