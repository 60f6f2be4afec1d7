//! One of several processes leads: it runs the work that must run once, and another takes over when
//! it dies, hangs or is cut off. Feature `scheduler`.
//!
//! Each process is a *candidate*: it [runs](Leader::run) the same work, which is called once per
//! *term*, while this candidate holds the lock of the leader's name. A term has no end of its own:
//! the lock is renewed until the work returns, the candidate [resigns](Leader::resign) or is
//! [stopped](Leader::stop), the work hangs, or the lock is lost. The work runs under the same guard as
//! any other: it is dropped before the lock's validity ends, so the next term begins only after this
//! one's work has ended.
//!
//! ```
//! use std::time::Duration;
//! use tower_redlock::{error::LossCause, LockError, Redlock, Term};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), LockError> {
//! // In production: over real servers, in each replica of the service.
//! let redlock = Redlock::embedded();
//! let leader = redlock
//!     .leader("billing")
//!     .ttl(Duration::from_secs(5))
//!     .on_lost(|cause: LossCause| eprintln!("not the leader any more: {cause}"));
//!
//! let billed = leader
//!     .run(|term: Term| async move {
//!         let mut billed = 0;
//!         while billed < 3 {
//!             // The resource checks the token and rejects former leaders.
//!             bill_one(term.fencing_token().get()).await;
//!             billed += 1;
//!         }
//!         // Returning ends the term, and `run`.
//!         billed
//!     })
//!     .await?;
//! assert_eq!(billed, Some(3));
//! assert!(!leader.is_leader());
//! # Ok(())
//! # }
//! # async fn bill_one(_token: u64) {}
//! ```
//!
//! # What ends what
//!
//! | | the term | the candidacy of this process |
//! |---|---|---|
//! | the work returns | ends | ends: [`run`](Leader::run) has its output |
//! | the work returns in [`run_until_stopped`](Leader::run_until_stopped) | ends | continues after a pause |
//! | [`resign`](Leader::resign) | ends | continues once another has led, or after a TTL |
//! | [`stop`](Leader::stop), or the future is dropped | ends | ends |
//! | the work hangs, or gives no heartbeat | ends | continues once another has led, or after a TTL |
//! | the lock is lost otherwise | ends | continues |
//! | the manager is shut down | continues | ends when the term does |
//!
//! # Time without a leader
//!
//! | the leader | the next one leads after |
//! |---|---|
//! | is killed, or cut off from the nodes | at most its TTL and a tenth of it |
//! | returns, resigns, or is stopped | a few round trips; without [wake-ups](crate::RedlockBuilder::wakeups) a third of a TTL and a little at most |
//! | hangs in a poll | `stall_limit`, a quarter of it, the TTL and a tenth of it at most |
//! | gives no heartbeat | `heartbeat_within`, a quarter of it, the TTL and a tenth of it at most |
//!
//! The time that an attempt takes comes on top. While a live leader is known, a candidate asks the
//! nodes about once per renewal interval (a third of the validity).
//!
//! # What leadership does not promise
//!
//! * **Exactly one effect.** A process that is paused inside a poll wakes up after its term and
//!   writes once more. A resource that must reject that checks the [fencing
//!   token](crate::LockContext::fencing_token), which is the number of the term: see
//!   [`fencing`](crate::fencing).
//! * **An end to code that blocks.** A poll can't be interrupted. When it hangs, the lock runs out
//!   and another leads, while the old code may still run; choose
//!   [`Overrun::Abort`](crate::lock::Overrun::Abort) where that must not be.
//! * **An end to what the work spawned by itself**, tasks and threads: dropping the work does not
//!   stop them. Let them watch [`stopping`](crate::LockContext::stopping), or tie them to the work,
//!   as `tokio::task::JoinSet` does.
//! * **Progress.** Work that never returns from an await, or whose runtime does not poll it any more,
//!   keeps its term. [`heartbeat_within`](Leader::heartbeat_within) ends that.
//!
//! | part | where |
//! |---|---|
//! | the candidate and its options | [`Leader`] |
//! | from the campaign to the end of a term | `run` |
//! | when to try again | `backoff` |
//! | what the clones of a candidate share | `shared` |
//! | a term as the work sees it | [`Term`] |
//! | leadership as others see it | [`Leadership`] |
//!
//! # How it works
//!
//! A leader is a lock without a limit for its hold. Work that hangs must not keep it: the background
//! thread reads the poll mark every quarter of `stall_limit`, and stops the renewal after it has seen
//! the same poll for that long. A grant that the candidate has not taken counts as a poll. A
//! candidate makes single attempts from its own task; a waiting request would be granted the lock by
//! the background thread, even if the candidate's runtime hangs. Between attempts it pauses for a
//! renewal interval, or until the nodes send a release hint, in the same order and with the same lead
//! node as waiting requests (R5). A candidate that resigned or hung does not campaign until it has
//! read another key with a greater token, or for a TTL. A led scheduler runs its jobs only while its
//! candidate leads; each run still has its own lock and claim. Its heartbeats come from its own
//! tasks, and only while the task that wakes the jobs is polled.

mod backoff;
pub(crate) mod candidate;
mod on_lost;
mod run;
mod shared;
pub(crate) mod term;

pub use crate::callback::CallbackOutput;
pub(crate) use candidate::Leader;
pub use term::Leadership;
pub(crate) use term::Term;
