//! The nodes of a set, and which of them may vote.
//!
//! | part | where |
//! |---|---|
//! | identity of a set, tag of a node | `layout` |
//! | what a node stores of its membership, and its server: the health check | `node_report` |
//! | which change of that comes next, without I/O | `next_change` |
//! | changes of that | `record` |
//! | the nodes of a manager, and which of them may vote | `set`, `state` |
//! | clock jumps and wrong wall clocks | `clocks` |
//! | background tasks | `tasks` |
//! | end of a probation | `activate` |
//! | copying of records | `copy`, `record_source`, `key_reservations`, `source_outcomes` |
//! | tasks of a single client on behalf of all | `shared_task` |
//! | connections for bulk data | `bulk_connection` |
//! | moves between layouts | `adopt` |
//! | a shorter `max_ttl` | `lower` |

mod activate;
mod adopt;
mod bulk_connection;
mod clocks;
mod copy;
#[cfg(any(test, fuzzing))]
pub(super) mod fuzzing;
mod key_reservations;
mod layout;
mod lower;
mod next_change;
mod node_report;
mod record;
mod record_source;
mod set;
mod shared_task;
mod source_outcomes;
mod state;
mod tasks;
#[cfg(test)]
mod tests;

pub(crate) use adopt::adopt;
pub(crate) use bulk_connection::count;
pub(crate) use layout::{Layout, Tag};
pub(crate) use lower::Lowering;
pub(super) use next_change::next_change;
pub(super) use node_report::{NodeReport, add_check, info};
pub(super) use record::{Change, ChangeKind};
pub(crate) use set::{AdminRequest, Membership, NodeSet};
