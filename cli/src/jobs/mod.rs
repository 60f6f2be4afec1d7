//! `redlock jobs`: the jobs of the fleet, their latest runs, and commands for all replicas.
//!
//! | to find | look in |
//! |---|---|
//! | the options, and which command it is | `command` |
//! | `list`, and a job as a row of a table | `list` |
//! | `history`, `next` | `show` |
//! | `pause`, `resume`, `trigger`, `stop`, `forget` | `steer` |
//! | whether the servers know a job | `known` |

mod command;
mod known;
mod list;
mod show;
mod steer;

pub(crate) use self::{
    command::{JobsArgs, jobs},
    list::{COLUMNS, FirstJobs, JobRow, first_jobs},
};
