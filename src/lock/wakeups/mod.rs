//! Waiting for a name that another process holds, without asking again and again.
//!
//! | part | where |
//! |---|---|
//! | whose turn it is, and when to ask again: pure | `turns` |
//! | names with waiters, and their subscriptions | `registry` |
//! | releases of one name, and streaks, with the tasks that wait for them | `watches` |
//! | the pauses before an attempt | `pause` |
//! | the task that continues a request after its first attempt | `manager_task` |
//! | single attempts, and the pauses between them | `single` |
//!
//! # Waiting for other processes (R5)
//!
//! *Wake-ups.* A waiter is woken by the release. A refused acquire that will be retried marks the
//! holder's key (`acquire.lua` gets the request's mark, `acquire_shared.lua` a `+`), and the release of a marked
//! key is published; waiters subscribe on a quorum of nodes. Publishing every release would make
//! each one slower by a tenth. A hint may be lost. The fallback is a retry after the holder's
//! remaining TTL, at most 1 s or a third of the TTL; while fewer than a quorum of nodes would
//! publish, after random pauses. The pause is a task of the background thread, which starts the
//! retry when the hint arrives: the path from a release to the next attempt does not include the
//! waiting task. A hand-over therefore takes two round trips: release and hint, acquire and grant.
//!
//! *The lead node.* After a split vote, and where more than two processes listen, all contenders
//! ask one node first, the same one: the lead node, which is the first that votes, answers in time,
//! and has a clock that is not too far behind for the name's tokens (R9). Where all nodes are slow, by
//! distance or load, the first of them leads. Contenders ask the others only if it granted or did not
//! answer, so that a single contender wins. The answer of the lead node alone is not reported as a
//! verdict (R3), but it ends as long a pause. A holder may lack the lead node: an attempt that
//! only the lead node granted wakes no waiter by its release, unless its request ends with it, since
//! otherwise waiters would take turns on the lead node, round trip by round trip, until the holder
//! releases.
//!
//! *Order.* A hint contains the number of listeners. Each process counts the turns of others since
//! it released the name (releases within 5 ms are one turn). When all others have had a turn, it
//! tries at once; with one or two outstanding it tries 2 or 4 ms after the hint, and with more also
//! after 4 ms. So processes take turns in the order in which they released the name, without
//! messages for that. Nothing depends on this order: if a process is slow, or listens without
//! waiting, the next one tries 2 ms later.
//!
//! *Streaks.* A streak is the time in which one process acquires a name repeatedly while other
//! processes wait for it. It begins when a release finds the mark of a waiter, or at a grant while
//! others listen; the latter is cancelled if the answer to the release says that no process waits.
//! After 5 ms the next local waiter pauses before it asks the nodes. From then on a lease is handed
//! on until every task that was in the queue at its grant has held it once, or twice within 20 ms.
//! Shorter turns would spend the time between processes; longer ones would exceed the share of that
//! queue. A process that held a name for 5 ms asks again only after the first node has answered its
//! release, or after 10 ms: otherwise its acquire would arrive before it knew of the others. Each
//! pause in which no other process acquires is double the previous one, up to the node timeout,
//! because the waiters may be farther away than the pause is long. A failed attempt ends the
//! streak: another process holds the name.
//!
//! *How long one process keeps a contended name.* First for one lease, until it learns that others
//! wait: at most 100 ms and a hold. Then for one turn: 5 ms and a hold, or one pass of its queue,
//! which takes at most 100 ms and a hold. If a turn serves the whole local queue, simulated waits
//! are at most four times the mean wait in one fair queue over all tasks. A process that gets no
//! processor may miss a turn. If no other process waits, none pauses. A single attempt is never
//! delayed, and may win repeatedly if it is repeated without a pause.

mod manager_task;
mod pause;
mod registry;
#[cfg(feature = "scheduler")]
mod single;
mod turns;
mod watches;

pub(super) use manager_task::run_in_manager;
pub(super) use pause::{Pause, RetryHistory, Yield, slot_turn};
pub(crate) use registry::Wakeups;
#[cfg(feature = "scheduler")]
pub(crate) use single::SingleAttempts;
pub(super) use turns::{LONGEST_YIELD, SHORTEST_PAUSE};
