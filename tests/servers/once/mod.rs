//! Work that is done once per key, over real servers.

mod crash;
mod crowd;
mod log;
mod memory;
mod restarts;
