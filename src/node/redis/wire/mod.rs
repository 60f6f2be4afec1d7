//! The bytes of one connection: commands go out in one write, answers come in their order.

mod resp;
mod stream;

use resp::Reader;
pub(super) use stream::Wire;
