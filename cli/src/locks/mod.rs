//! The locks that are held: all of them, the holder of one name, and taking a lock away.
//!
//! | to find | look in |
//! |---|---|
//! | `ls`: a lock as a row of a table | `ls` |
//! | `inspect`: a holder, node by node | `holder` |
//! | `break` | `revoke` |
//! | what slots have besides | `slot` |
//! | what shared locks have besides | `readers` |

mod holder;
pub(crate) mod ls;
mod readers;
mod revoke;
mod slot;

pub(crate) use self::{
    holder::{InspectArgs, ask, inspect},
    ls::{COLUMNS, LsArgs, lock_cells, lock_json, ls},
    readers::owners,
    revoke::{BreakArgs, take_away},
};
