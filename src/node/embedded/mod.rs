//! Voting nodes inside the process, by the same rules as the servers.

mod claims;
mod nodes;
mod records;
mod store;

pub use nodes::EmbeddedNodes;
