//! Voting nodes inside the process, by the same rules as the servers.

mod jobs;
mod nodes;
mod store;

pub use nodes::EmbeddedNodes;
