//! Schedules of threads that use the crate, explored by `shuttle`: each test runs in thousands of them.
//!
//! Compiled with `--cfg redlock_shuttle`, which makes each operation of the crate's mutexes,
//! atomics and notifications a point at which another thread may run. The README beside it says
//! what is explored and what is not.

mod activity;
mod explore;
mod holders;
mod late;
mod world;

pub use explore::explore;
pub use holders::Holders;
pub use world::{LONG, Thread, World, abandon, attempt, hold, pass, request, request_until_closed};
