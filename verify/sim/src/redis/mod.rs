//! A Redis server in memory: the commands that the crate's scripts and its client use, with the
//! crate's own scripts in an embedded Lua.

mod commands;
mod hashes;
mod info;
mod lua;
mod reply;
mod scan;
mod server;
mod sorted;
mod store;
mod strings;

pub use lua::{Patch, set_patches, unused_patches};
pub use reply::{Reply, take_command};
pub use server::{Condition, ConnId, MasterReport, Role, Server};
pub use store::{Bytes, Expiry, SortedSet, Store, Value};
