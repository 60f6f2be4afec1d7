//! `redlock serve`: web pages about the locks, servers and jobs of a fleet, without a service.
//!
//! | to find | look in |
//! |---|---|
//! | the options, which users may read and act, and the password | `command` |
//! | connections, and their end | `server` |
//! | which connection ends at their limit | `places` |
//! | connections that are idle, or take too long | `activity`, `protocol` |

mod activity;
mod command;
mod places;
mod protocol;
mod server;
#[cfg(test)]
mod tests;

pub(crate) use self::command::{ServeArgs, serve};
