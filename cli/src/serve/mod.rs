//! `redlock serve`: web pages about the locks, servers and jobs of a fleet, without a service.
//!
//! | to find | look in |
//! |---|---|
//! | the options, and the course | `command` |
//! | which users may read and act, and the password | `viewers` |
//! | connections, and their end | `server` |
//! | connections that are idle | `activity` |

mod activity;
mod command;
mod server;
mod viewers;

pub(crate) use self::command::{ServeArgs, serve};
