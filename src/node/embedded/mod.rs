//! Voting nodes inside the process, by the same rules as the servers.

mod claims;
mod nodes;
mod records;
mod sharing;
mod store;

pub use nodes::EmbeddedNodes;
