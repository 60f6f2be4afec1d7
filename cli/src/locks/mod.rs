//! The locks that are held: all of them, the holder of one name, and taking a lock away.
//!
//! | to find | look in |
//! |---|---|
//! | `ls` | `ls` |
//! | `inspect`: a holder, node by node | `holder` |
//! | `break` | `revoke` |
//! | a lock as a row of a table | `row` |

mod holder;
mod ls;
mod revoke;
pub(crate) mod row;

pub(crate) use self::{
    holder::{InspectArgs, ask, inspect},
    ls::{LsArgs, ls},
    revoke::{BreakArgs, take_away},
    row::{COLUMNS, lock_cells, lock_json},
};
