//! What the testing kit promises: time that moves by hand, nodes that fail when they are told to.

mod claims;
mod clock;
mod failures;
mod frozen;
mod load;
mod managers;
mod pauses;
mod tasks;
mod threads;
mod turns;
mod wakeups;
