//! Runs the algorithm of one lease: feeds it events, and carries out its actions.
//!
//! A lease, as the nodes know it, is shared by consecutive grants of this process, one at a time.
//!
//! | part | where |
//! |---|---|
//! | one grant, from the attempt to the release | `active` |
//! | polls of futures, stop requests, heartbeats, stall checks | `signals` |
//! | the lease that grants share: its events, and hand-offs | `shared` |
//! | a lease that waits for the next request of its process | `linger` |
//! | carrying out the algorithm's actions | `actions` |
//!
//! # Hand-off and linger (R5)
//!
//! *Hand-off.* A released lock goes to the next request in the queue without a message, if that
//! request wants exactly these names with the same TTL: at most `handoff_limit` (20) times, within
//! 100 ms of the lease's grant, while half of the validity and a token of the block are left, and
//! if no server's clock has jumped since. Nothing changes on the nodes. The end of the validity
//! stays the one that a quorum confirmed, and the former holder's validity is zero before the next
//! one holds. A holder with records (`once`) neither takes nor passes on a lease, because records
//! tell holders apart by the lease's nonce.
//!
//! *Linger.* With the option `linger`, a process keeps a released lock that none of its requests
//! waits for: the nodes keep the key, no renewal is sent, and the process gives it back after that
//! time, or after half of the validity. Its next request for exactly these names with the same TTL
//! takes the lock over, as in a hand-off.
//!
//! Another process can ask for such a lock. The key has a mark that says that the lease may linger.
//! An acquire that is refused such a key publishes the name on the channel of the key's owner, and
//! changes the mark if a process listens there, so that only one refusal asks. The owner then gives
//! the lease back: at once if it lingers, otherwise at the end of the present hold, under the
//! limits of any hand-off. Until then these limits (`handoff_limit`, 100 ms) do not apply, since no
//! other process waits. A question may arrive before the grant that it is about, so the manager
//! keeps the time of the last question for each name, and compares it with the start of the lease.
//! After a question, new leases of the name do not linger for a second: otherwise a client that
//! makes single attempts would meet a lingering lease each time. The pause doubles, up to a minute,
//! if another question comes within a minute of its end (`linger`).
//!
//! A lease lingers only if a quorum of nodes has reported to the owner since before the lease was
//! requested, and all that lingers is given back when fewer than a quorum report. So of the nodes
//! that keep the lease one reports. A client that reaches only others of them is refused without
//! asking, and a report may be lost: then the client waits for the end of the linger, which is
//! bounded.
//!
//! Safety: a lease that lingers has no holder and an end that a quorum confirmed, and the next
//! holder has no later one.

mod actions;
mod active;
mod linger;
mod shared;
mod signals;

pub(crate) use active::ActiveLease;
#[cfg(test)]
pub(crate) use active::PollGuard;
pub(crate) use shared::SharedLease;
