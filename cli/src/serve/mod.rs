//! `redlock serve`: web pages about the locks, servers and jobs of a fleet, without a service.
//!
//! | to find | look in |
//! |---|---|
//! | the options, which users may read and act, and the password | `command` |
//! | connections, and their end | `server` |
//! | connections that are idle | `activity` |

mod activity;
mod command;
mod server;

pub(crate) use self::command::{ServeArgs, serve};
