//! The nodes of a set, and which of them may vote.
//!
//! | part | where |
//! |---|---|
//! | what a set of nodes is known by | [`Layout`] |
//! | what is stored on a node: state, incarnation, layout | [`Tag`] |
//! | how a node stands, as it says itself | [`Standing`] |
//! | what all nodes of a manager have in common: probations, duplicates, jumping clocks | [`NodeSet`] |
//! | ending a probation, with what the others know | `activate` |
//! | taking over long-lived records | `copy` |
//! | how many keys a node keeps | `count` |
//! | from one layout to another | `adopt` |

mod activate;
mod adopt;
mod copy;
mod count;
mod layout;
mod set;
mod standing;
mod tag;

pub(crate) use adopt::adopt;
pub(crate) use count::count;
pub(crate) use layout::Layout;
pub(super) use set::Admin;
pub(crate) use set::NodeSet;
pub(super) use standing::{Check, Standing, add_check, info};
pub(super) use tag::Tag;
