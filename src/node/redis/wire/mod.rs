//! The bytes of one connection: commands go out in one write, answers come in their order.

mod command;
mod resp;
mod stream;

pub(super) use command::Command;
use resp::RespReader;
pub(super) use resp::Unreadable;
use stream::MAX_KEPT;
pub(super) use stream::{MAX_READS, Wire};
