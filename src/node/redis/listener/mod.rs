//! The connection by which a server tells of releases: open only while somebody waits.
//!
//! | part | where |
//! |---|---|
//! | who listens for which name, and what the server said of it | `board` |
//! | the connection: opened on demand, kept up, closed | `task` |

mod board;
mod task;

pub(super) use board::Board;
pub(crate) use task::Listener;
