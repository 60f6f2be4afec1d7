//! The guarantees of the feature `testing`: time that a test moves, nodes that fail on demand.

mod claims;
mod clock;
mod contexts;
mod crowds;
mod diagnosis;
mod failures;
mod frozen;
mod goodput;
mod load;
mod managers;
mod memory;
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
