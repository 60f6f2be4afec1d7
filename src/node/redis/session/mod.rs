//! One connection in use: sends batches of operations and reads their answers.
//!
//! | part | where |
//! |---|---|
//! | writing operations, and reading replies | [`Session`] |
//! | what a session does when: from the first health check to the last answer | `phase` |
//! | the tag of the server's votes | `voting_tag` |
//! | operations that their senders write | `direct` |
//! | operations that wait for room; batches that wait for replies | `send_queue`; `sent_batch` |
//! | the replies to a batch | `answers` |
//! | refused votes, and denied commands | `votes` |
//! | health checks, and when one is due | `health_check`, `check_progress` |
//!
//! Queued operations are sent in one write, each as a command of its own; one TIME follows the
//! acquires. So concurrent locks share round trips, and a key that we may not access affects no
//! other.
//!
//! # Order (R8)
//!
//! * A release follows every other operation of its nonce on the same connection. If a connection has
//!   1,024 operations unanswered, new ones wait: acquires after everything but operations of their
//!   own lease.
//! * An acquire whose lease is over is not sent; the verdict does without that node. An operation
//!   whose lease is over is not sent again after a `NOSCRIPT`.
//! * An acquire stores its keys with their expiry in the server's own time: the latest time that its
//!   clock can show, plus the TTL and a node timeout. So a command that was stuck in a frozen
//!   server's socket never outlives its own lease: once the expiry has passed it stores nothing,
//!   though the server answers that it did. Therefore TIME follows the acquires of each batch, and a
//!   grant without it does not count. A grant that counts was answered within a node timeout, and its
//!   TIME fits the readings before (R10): so the command ran before the server's clock was a node
//!   timeout ahead of what was expected, and its key lives for the TTL from then on. *The latest
//!   time* includes the drift since the last reading, within which a jump is not detected. The
//!   price: the key of a holder that dies lives a node timeout (50 ms by default) and that drift
//!   longer.
//! * Until that expiry, a command of a connection that broke may still run: the commands that a hung
//!   server has received run when it continues, mostly before it answers on the next connection.
//!   An acquire among them whose release was not received locks a name that no client holds. So such
//!   releases are sent as soon as the server is up again (`Node::wake_on_return`), a release that runs
//!   before the expiry is `Unsettled`, and it is repeated (`quorum::backlog`). A connection
//!   that is given up is reset, so that the system sends nothing after that.
//!
//! # Misplaced answers
//!
//! Answers are matched to requests by their order and form alone. An answer of another form, as most
//! are when a proxy mixes up answers, ends the connection, since those after it are misplaced as
//! well; what is in flight "may have run". Limit: whole batches of the same form that are exchanged
//! are not noticed before the next health check, which ends a connection that is out of step.
//!
//! # Health checks
//!
//! One a second, and at once where the record or the clock is needed: a changed tag, a step of the
//! enrolment, a clock of another node that jumped. At most ten a second: clocks of two nodes that
//! jump with each reading would otherwise have each other read without a pause.
//!
//! After the longest TTL without an operation, no lock of this client depends on the server. Then,
//! while all connected nodes vote, the interval is half of that TTL, at most 5 s: two readings of a
//! clock within one TTL still show each jump that may have expired the locks of others. The first
//! operation afterwards is followed by a check at once.

mod answers;
mod check_progress;
mod direct;
mod health_check;
mod phase;
mod send_queue;
mod sent_batch;
#[expect(clippy::module_inception, reason = "the file of the type that the module is about")]
mod session;
#[cfg(test)]
mod tests;
mod votes;
mod voting_tag;

pub(super) use direct::DirectWriter;
pub(super) use session::{NodeChannels, Session, SessionEnd};
