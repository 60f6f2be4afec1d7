//! A release wakes the waiters, which do not poll.

mod scene;

mod crowd;
mod faults;
mod handover;
mod line;
mod linger;
mod readers;
mod shares;
mod slots;
