//! Slots: at most n holders of a name at a time, in all processes together.
//!
//! Counting holders on a majority of nodes would be unsound: two nodes may count different holders, n each. So slot *i* of a name is a lock of its own, `slot:<i>:<name>`, and keeps
//! every promise of a lock (R15). What is added is the choice of a slot.
//!
//! | part | where |
//! |---|---|
//! | the slots of a name, and which of them this process prefers | `slot_set` |
//! | what a request knows of the slots: pure | `known_slots` |
//! | a request for any of the slots | `slot_request` |
//!
//! # Choosing
//!
//! A request tries the slot that its process held last, at first one that follows from the owner's
//! name, so that processes begin at different slots. If that slot is held, it reads the holders of
//! all slots, in one round trip, and tries one that is free. If none is, the request fails with all
//! holders, or waits.
//!
//! # Waiting
//!
//! The requests of a process wait in one line for each number of slots, so that a request for few slots does not
//! delay one for more. Only the first of a line watches the slots. It reads which slots are free; if there
//! are several, it passes its place on while it tries one, and the next requests use what it read. One that
//! is refused then goes to the end of the line, once. The release of a slot is published in any case:
//! a request that waits for any of them has marked none. The first request of each line is woken, and they try all
//! slots that were released, in turns, as for a lock (R5).
//!
//! A released slot may also go to the first request in line without a message, under the limits of any
//! hand-off (R5); of several lines that may have it, to the one whose first request is the oldest. What the
//! first one knows of releases then stays for the one that is first after it, which would otherwise read
//! all slots.
//!
//! The order among processes is that of R5, not exact.
//!
//! # Different numbers of slots
//!
//! The number is not stored. Clients with n and m slots share the first min(n, m), so there are never
//! more than max(n, m) holders. A client that reads the slots also reads the one after its last. If
//! that is held, a client with more slots is alive, and a WARN names both.
//!
//! # Lock order
//!
//! The mutex of a set of slots is locked before the mutex of turns (R5), and never with the lines of
//! the queue.

mod known_slots;
mod slot_request;
mod slot_set;

#[cfg(feature = "scheduler")]
pub(super) use slot_request::is_quorum;
pub(super) use slot_request::{acquire, not_of_a_set};
pub(crate) use slot_set::SlotSets;
