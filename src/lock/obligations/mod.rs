//! Ends that nodes have to learn of: releases (R8), records of done work (R13), ends of runs (R12).
//!
//! An end is an obligation of this process: it is kept until the nodes have acknowledged it, or until
//! no client can depend on it any more, and it is sent again as soon as a node answers.
//!
//! | end | is acknowledged by | is moot once | while it is owed |
//! |---|---|---|---|
//! | a release | each node that may keep the key | the key has expired there | counted for each node |
//! | a record that work has not started | each node | the record has expired there | counted for each node |
//! | a record of ended work | a quorum | its retention is over; of an unknown outcome, the lock is over | listed; its lock is kept up to `max_hold`; this process answers repetitions from it |
//! | the end of a job's run | a quorum | a majority refuses it for a later claim | listed; the job's task keeps the lock |
//!
//! A node gets one operation at a time while it does not answer, with a backoff, and the others in
//! batches once it does ([`Backlog`](crate::quorum::backlog::Backlog)).
//!
//! What is given up for good is a WARN, an event and a count: at the shutdown, with the last handle of
//! the manager, and above [`MAX_OWED`](owed_ends::MAX_OWED) ends.

mod owed_end;
mod owed_ends;
mod owed_reports;
mod repeater;

pub(crate) use owed_end::OwedEnd;
pub(crate) use owed_ends::OwedEnds;
pub use owed_ends::{Owed, OwedKind};
pub(crate) use repeater::{Obligation, Repeaters};
