//! `redlock status`: the servers and the locks, once or live.
//!
//! | to find | look in |
//! |---|---|
//! | the options, and the report that is printed once | `command` |
//! | reading the first locks | `listing` |
//! | what the live view shows, and when it changes | `view` |
//! | when it is drawn, and what ends it | `watch` |

mod command;
mod listing;
mod view;
mod watch;

pub(crate) use self::command::{StatusArgs, status};
