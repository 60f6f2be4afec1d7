//! The nodes of a set, and which of them may vote.
//!
//! | part | where |
//! |---|---|
//! | what a set of nodes is known by | [`Layout`] |
//! | what is stored on a node: state, incarnation, layout | [`Tag`] |
//! | how a node stands, as it says itself | [`NodeReport`] |
//! | what all nodes of a manager have in common: who votes, and why the others don't | [`NodeSet`] |
//! | clocks that jump | `jumps` |
//! | wall clocks that are off | `clocks` |
//! | what goes on beside the operations | `tasks` |
//! | ending a probation, with what the others know | `activate` |
//! | telling nodes who owns the other names | `inform` |
//! | taking over long-lived records | `copy` |
//! | work that one client at a time does for all | `task_claim` |
//! | connections for what is long | `side` |
//! | how many keys a node keeps | `count` |
//! | from one layout to another | `adopt` |
//! | from a set that nobody uses any more | `takeover` |
//! | a shorter `max_ttl` | `lower` |

mod activate;
mod adopt;
mod bulk_connection;
mod clocks;
mod copy;
mod layout;
mod lower;
mod node_report;
mod set;
mod shared_task;
mod state;
mod tasks;

pub(crate) use adopt::adopt;
pub(crate) use bulk_connection::count;
pub(crate) use layout::{Layout, Tag};
pub(crate) use lower::Lowering;
pub(super) use node_report::{EnrolCheck, NodeReport, add_check, info};
pub(crate) use set::{AdminRequest, Membership, NodeSet};
