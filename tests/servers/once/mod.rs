//! Work that is done once per key, over real servers.

mod crash;
mod crowd;
mod memory;
mod restarts;
