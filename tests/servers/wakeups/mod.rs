//! A release wakes the waiters, which do not poll.

mod faults;
mod handover;
mod linger;
mod readers;
mod slots;
