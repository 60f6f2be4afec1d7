//! The last events of this process, and their stream.

mod follow;
mod log;
mod permit;
mod stream;

pub(crate) use log::{EventLog, EventSource, LoggedEvent, NumberedEvent};
pub(crate) use stream::stream;
