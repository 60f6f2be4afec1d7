//! The nodes of a set, and which of them may vote.
//!
//! | part | where |
//! |---|---|
//! | identity of a set, tag of a node | `layout` |
//! | the stored membership of a node, and the properties of its server: the health check | `node_report` |
//! | deciding the next change of the membership, without I/O | `next_change` |
//! | changes of the membership | `record` |
//! | the nodes of a manager, and which of them may vote | `set`, `state` |
//! | clock jumps and wrong wall clocks | `clocks` |
//! | requests to the nodes | `requests` |
//! | background tasks | `tasks` |
//! | end of a probation | `activate`, `learnt_state` |
//! | copying of records | `copy`, `record_source`, `copier`, `records_report`, `source_outcomes` |
//! | tasks that a single client runs on behalf of all | `shared_task` |
//! | connections for bulk data | `bulk_connection` |
//! | moves between layouts | `adopt` |
//! | a shorter `max_ttl` | `lower` |
//!
//! # Views on a server (R6)
//!
//! The rules are in `membership`; this folder stores and reads what they decide.
//!
//! * *Votes.* The key of the fences is named by view and `max_ttl`, and is there only while the node
//!   votes under these: a script that changes the tag also renames the key. Acquires and raises
//!   read the fence first, other votes compare the tag. Under another view nothing runs, and the
//!   operation is sent once more when the new tag is known: a change at one server fails no request.
//! * *Changes.* A client reads a node's record, and INFO after it, when it connects, every second,
//!   and when another node's record gives reason to. `next_change` decides the next form of the
//!   record; one script stores that (`change.lua`) if the tag and what else was decided by are
//!   unchanged. Another run id ends the connection.
//! * *Tasks.* One client at a time learns and copies on behalf of all, under a lease of 4 s by the
//!   server's clock (`shared_task`). A lease that ends later than any granted one is void.
//! * *Lists (R17).* A set of several takes servers by what the others show (`set_list`).
//! * *Layouts (R7).* `layout` makes the hash that a server is bound to; `adopt` moves servers.
//!
//! # Invariants
//!
//! * A tag changes only by a script that compares the tag that the change was decided by.
//! * No key of fences has the name of a view while its node does not vote under it.
//! * A node confirms that a record is missing only after it has copied the other nodes' records.

mod activate;
mod adopt;
mod bulk_connection;
mod clocks;
mod copier;
mod copy;
#[cfg(any(test, fuzzing))]
pub(super) mod fuzzing;
mod layout;
mod learnt_state;
mod lower;
mod next_change;
mod node_report;
mod record;
mod record_source;
mod records_report;
mod requests;
mod set;
mod set_list;
mod shared_task;
mod source_outcomes;
mod state;
mod tasks;
#[cfg(test)]
mod tests;

pub(crate) use adopt::Adoption;
pub(crate) use bulk_connection::count;
pub(crate) use layout::{Layout, Tag};
pub(crate) use lower::Lowering;
pub(super) use next_change::next_change;
pub(super) use node_report::{NodeReport, add_check};
pub(super) use record::{Change, ChangeKind};
pub(crate) use set::{AdminRequest, Membership, NodeHandle, NodeSet, SetAdmission, SetList};
#[cfg(test)]
pub(super) use tests::Scripted;
