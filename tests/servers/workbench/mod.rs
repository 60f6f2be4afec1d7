//! The tools that make servers and networks misbehave do what they say.

mod clock;
mod late_requests;
mod memory;
mod replication;
mod restarts;
mod urls;
