//! RESP2 over one stream: encodes commands, reads replies.
//!
//! A session writes into one reused buffer. Voting and listening connections share the reader and the
//! writer. A line has at most 64 KB, an answer a depth of at most 32.

mod command;
#[cfg(any(test, fuzzing))]
pub(super) mod fuzzing;
mod resp;
mod stream;

pub(super) use command::Command;
use command::MAX_KEPT;
use resp::RespReader;
pub(super) use resp::Unreadable;

pub(super) use stream::{MAX_LONG, MAX_READS, TOO_LONG, Wire};
