//! Bounds on what one manager stores on the nodes, and on the bodies of waiting requests.
//!
//! | part | where |
//! |---|---|
//! | the bounds on records and answers | [`Quota`] |
//! | what counts against them until it expires | `window` |
//! | the share of one lease | [`Charge`] |
//! | bytes of waiting bodies | `body_room` |
//!
//! # Quotas (R13)
//!
//! Records use the memory that locks need, so a manager has a quota for the records that it stores.
//! Room for a record is taken under the lock, before the work begins: work that cannot be recorded
//! must not run. Room for a response is taken when its size is known; without room, the record is
//! stored without the response. What is stored counts until its retention is over, in buckets by
//! expiry, each at most a 32nd of the retention wide: about sixty of them whatever the number of
//! records. A record that was forgotten by hand still counts. Bytes are counted as the server's
//! allocator counts them.
//!
//! A share of one scope is counted in the same way, for the scopes with one hash, of which there are 1,024:
//! exact counts would give a client with many scopes as much memory as it likes.
//!
//! Default limits come from `maxmemory`, as health checks report it. They also report the memory in
//! use, which includes what other processes and earlier runs have stored: no response above 1 KiB
//! is stored while less than a quarter of it is free on a quorum, counting what this process stored
//! since the last check. As other processes see the same room, each takes an eighth of it between
//! two checks: up to eight may store a burst at once. Each process counts for itself, because a
//! common count would cost a command for each record, and could be wrong after a server forgot it.

#[cfg(feature = "http")]
mod body_room;
mod charge;
#[allow(clippy::module_inception, reason = "it is the quota, among its parts")]
mod quota;
mod window;

#[cfg(feature = "http")]
pub(crate) use body_room::{BodyRoom, HeldBytes, NoRoom};
pub(crate) use charge::Charge;
#[cfg(all(feature = "http", feature = "once"))]
pub(crate) use quota::WarnThrottle;
pub(crate) use quota::{Quota, RecordBounds, RecordShare};
