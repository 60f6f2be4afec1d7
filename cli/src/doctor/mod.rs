//! `redlock doctor`: which nodes vote, why the others do not, and what to do.
//!
//! | to find | look in |
//! |---|---|
//! | the options, and which examination it is | `command` |
//! | the diagnosis, the report and its exit code | `report` |
//! | waiting until nodes vote | `wait` |
//! | trying everything over throw-away servers | `check` |

mod check;
mod command;
mod report;
mod wait;

pub(crate) use self::{
    command::{DoctorArgs, doctor},
    report::{diagnose, report_json, show, verdict, with_commands},
    wait::{Until, default_timeout, kind, wait},
};
