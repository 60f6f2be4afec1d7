//! A release wakes the waiters, which don't poll.

mod scene;

mod crowd;
mod faults;
mod handover;
mod line;
mod linger;
mod shares;
