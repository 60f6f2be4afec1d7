//! `redlock run`: a command that runs only while a lock is held.
//!
//! | to find | look in |
//! |---|---|
//! | the options | `args` |
//! | the course: servers, lock, command, end | `runner` |
//! | the command under the lock | `work` |
//! | the messages, and the exit code | `ended` |
//! | the line about a long wait | `waiting` |
//! | signals to this process | `signals` |
//! | `--on-lost` | `hook` |
//! | names that a process above this one holds | `ancestors` |
//! | the command, through its watchdog | `command`, `messages` |
//! | the process of the watchdog: kills the command before the lock ends | `watchdog` |
//! | the process of the command, before it is the command | `start` |
//! | process groups, descendants | `processes` |
//! | the end of the lock, on a shared clock | `clock` |
//! | a tick of a job, and the report of its failure | `tick`, `hook` |
//! | the time zone of a crontab | `zone` |

mod ancestors;
mod args;
mod clock;
mod command;
mod ended;
mod hook;
mod messages;
mod processes;
mod runner;
mod signals;
mod start;
mod tick;
mod waiting;
mod watchdog;
mod work;
mod zone;

pub(crate) use self::{
    args::RunArgs,
    runner::{helper, run},
};
