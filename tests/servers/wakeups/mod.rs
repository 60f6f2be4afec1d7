//! A release wakes the waiters, which do not poll.

mod crowd;
mod faults;
mod handover;
mod line;
mod linger;
mod readers;
mod slots;
