//! `redlock serve`: web pages about the locks, servers and jobs of a fleet, without a service.
//!
//! | to find | look in |
//! |---|---|
//! | the options | `args` |
//! | the course: users, manager, address, connections, end | `command` |
//! | which users may read and act, the password, names of the host | `viewers` |
//! | connections, and their end | `server` |
//! | which connection ends at their limit | `places` |
//! | connections that are idle, or take too long | `activity`, `protocol` |

mod activity;
mod args;
mod command;
mod places;
mod protocol;
mod server;
#[cfg(test)]
mod tests;
mod viewers;

pub(crate) use self::{args::ServeArgs, command::serve};
