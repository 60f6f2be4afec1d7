//! The locks that are held: all of them, the holder of one name, and taking a lock away.
//!
//! | to find | look in |
//! |---|---|
//! | `ls` | `ls` |
//! | `inspect` | `inspect` |
//! | `break` | `revoke` |
//! | a lock as a row of a table | `row` |
//! | a holder, node by node | `holder` |

mod holder;
mod inspect;
mod ls;
mod revoke;
mod row;

pub(crate) use self::{
    holder::ask,
    inspect::{InspectArgs, inspect},
    ls::{LsArgs, ls},
    revoke::{BreakArgs, take_away},
    row::{COLUMNS, LockRow},
};
