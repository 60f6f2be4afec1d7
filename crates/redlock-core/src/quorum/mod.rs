//! The algorithm, without a socket, a timer, a clock or a random number in it.
//!
//! A [`Lease`] is one attempt to hold a resource and all that follows from it: the votes, the
//! fencing token, the renewals, the loss, the release. It takes an [`Event`] and the present
//! moment, and returns [`Action`]s. The same code runs in production and under test.
//!
//! | rule | where |
//! |---|---|
//! | inputs and outputs | `event` |
//! | phases, hand-off, release | `lease` |
//! | the lead node, verdicts | `attempt` |
//! | renewal, expiry, theft | `renewal` |
//! | one node's answers; all nodes' | `ballot`; `ballots` |
//! | the fencing token | `token_rounds` |
//! | releases that a node has not acknowledged | [`pending_releases`] |
//! | the latest run of a job | [`claims`] |
//! | whether the work of a name is done | [`records`] |
//!
//! N nodes, q = ⌊N/2⌋+1, drift = factor × TTL + 2 ms, validity = TTL − drift.
//!
//! # Acquire, decide, release (R1, R2, R3)
//!
//! * **R1.** An attempt reads t₀ and sends to all nodes at once. With q grants and `now < t₀ +
//!   validity`, the lock is held until exactly t₀ + validity. The attempt does not wait for the
//!   other answers; a late grant still counts, and is released with the others.
//! * **R2.** As soon as q grants are out of reach the attempt is over. It is released everywhere at
//!   once, also on nodes that have not answered, before the verdict is known and before any retry.
//!   A split vote ends like any other failure; N = 1 and N = 2 need no rules of their own.
//! * **R3.** `Held` means that a node reported a holder, and that the nodes that granted together
//!   with those that reported a holder are a quorum. Otherwise the verdict is `NoQuorum`. It waits,
//!   at most until the node timeout, for answers that could change it, so it does not depend on
//!   their order; the release does not wait. A release compares the nonce and deletes the key in
//!   one script, goes to every node, and costs the caller no round trip.
//!
//! # Extend (R4)
//!
//! For each node the lease remembers the start of the latest request that set the TTL of the key. A
//! quorum keeps the key until the q-th largest of these starts plus the validity, so a slow answer
//! to an earlier round still counts, from its own start. Rounds begin at a third of the validity
//! and repeat (every validity / 20, 2 to 250 ms) until the deadline; a failed round gives nothing
//! up. A node that lost the key gets it again. A lease past its end is never revived. Once q nodes
//! report another holder, the lock is lost immediately. At `maxmemory` a server refuses `SET` but
//! not `PEXPIRE`: a key that is ours is renewed by `PEXPIRE` alone.
//!
//! # Nonces, and releases without an answer (R8)
//!
//! Every attempt has a fresh nonce: the release of one attempt must not delete what the next was
//! granted. A release is final only if the server ran it after the expiry, or the deadline, of
//! every operation that stayed unanswered, as a lost command may have travelled over another
//! connection. Until then it stays among the pending releases, at most until the key has expired.
//!
//! # Fencing tokens (R9)
//!
//! Tokens count microseconds since the epoch, below 2⁵³. A node keeps the highest number of each of
//! 1,024 stripes (FNV-1a of the name), without expiry, so its memory does not grow with the names.
//! The client proposes max(the nodes' wall clock, the largest number that it knows for the stripe +
//! 1). A node that grants, and whose fence is below the proposal, stores the end of the proposal's
//! block (256 numbers, for hand-offs within a process) and answers "accepted". If q nodes granted
//! and accepted the same number, it is the token, after one round trip. Otherwise the client
//! raises: it sends a number above every fence it saw to all nodes that granted. A node accepts it
//! if the key is still ours and the number is above its fence. Acceptances of different numbers are
//! never added up. After three raises the attempt is over.
//!
//! Why it is correct: q nodes stored the end of the block, and any later lease needs q grants. The
//! two sets share a node, and that node refuses what is not above its fence. Reading fences first
//! and proposing later would leave a gap between the two; raising on refusals would let a losing
//! client increase fences without end.
//!
//! A hand-off gives the next holder the next token of the block. The whole block belongs to this
//! lease: a quorum stored its end, and no other lease gets a token at or below it. When the block
//! is used up, the lock returns to the nodes.
//!
//! # Claims of ticks (R12)
//!
//! A job's lock keeps runs apart, but does not show whether a tick was run. So each tick is
//! *claimed* on a majority, under the fencing token `t` of the lock:
//!
//! 1. *Prepare*: each node promises to accept no claim of the job with a token below `t`, and
//!    returns the claim that it keeps. A quorum has to answer.
//! 2. The claim with the greatest token among the answers counts if the nodes that keep it could be
//!    a quorum together with the nodes that did not answer. If not, no majority keeps it or ever
//!    will, since its author cannot complete it any more. Then the run counts that the claim itself
//!    names as the previous one, which its author had found in the same way.
//! 3. *Claim*: the tick, the attempt, the owner and the previous run, with token `t`. The run
//!    starts only when a quorum has accepted it. A claim that a replica made and did not start does
//!    not block that replica.
//!
//! This is Paxos (Lamport, *Paxos Made Simple*, 2.2) with the fencing token as the proposal number,
//! of which only the last decision is kept. The difference: a claim that may have been chosen is
//! not proposed again; its tick counts as started. So the watermark only rises, and a split vote
//! loses no tick. A node that forgot takes promises and claims from N−q+1 others before it votes
//! (R6). If a majority forgot at once, ticks up to that time count as started.
//!
//! When a run has ended, the same claim is stored with its end: the others see that a tick came
//! during the run, when a delay after the end is over, and, for jobs that claim at the end, that
//! nothing must be repeated. A claim under which nothing was started (a shutdown, a pause) is taken
//! back in the same way: the previous run is stored in its place. Such a second claim has the same
//! token and a greater *number*. A node accepts and learns no smaller number of a token that it
//! keeps; of the claims with the greatest token the one with the greatest number counts, whichever
//! node keeps it. Every later quorum has a node that keeps it, so no end is lost and no tick is
//! blocked where a node missed it. An end that fewer than a quorum accepted (its replica was
//! disconnected) is true nevertheless, and would be lost with the next quorum without these nodes:
//! a replica that reads it takes the lock within 5 s and stores it under its own token. So does one
//! that finds a claim on a minority, which does not count: with other nodes out of reach the same
//! claim may count. Until that is settled, no replica reports its tick as missed.
//!
//! A *document* is a claim without a run. The latest document is the one with the greatest token
//! among the answers of a quorum; its author had prepared, and so read whatever a majority had
//! stored before. Unlike a claim, one that only a minority stores may be found and counts then: it
//! is a whole document, and its author reported an unknown outcome.
//!
//! # Records of work done once (R13)
//!
//! A record of work that is *done* counts wherever it is found, since a holder stored it; what
//! fewer than a quorum keep is copied to the others, unless it expires within a node timeout. A
//! value that cannot be read is not an answer that there is no record. A record that the work was
//! *begun* counts if a quorum may keep it, together with the silent nodes: one that is left on one
//! node blocks the key while another node is silent. Of an unfinished record and others, the one
//! with the latest expiry counts. A node that lacks records abstains from reporting that there is
//! none (R6).
//!
//! # Invariants
//!
//! * At most one lease holds a resource: a lease is held only while q nodes kept its key from a
//!   start less than a validity ago.
//! * The end of a lease moves forward only by answers of a quorum, and never after it has passed.
//! * A hand-off or a linger changes neither the nodes nor the end; the former holder's validity is
//!   zero before the next one's begins.
//! * A token is accepted by q nodes under one number, and no later lease of the stripe gets one at
//!   or below it.
//! * No release is forgotten before the key has expired on the node.

mod attempt;
mod ballot;
mod ballots;
pub mod claims;
mod event;
mod lease;
pub mod pending_releases;
pub mod records;
mod renewal;
#[cfg(test)]
mod tests;
mod token_rounds;

pub use event::{
    Action, Event, Halt, HandOff, LeadNode, LeaseCommand, LeaseParams, Loss, NextHolder, Refusal,
    ReleaseVerdict,
};
pub use lease::Lease;
