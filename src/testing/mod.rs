//! For tests of code that takes locks: a clock that is moved by hand, and nodes that fail when they
//! are told to. No sleeping, no servers, and the same outcome in every run. Feature `testing`.
//!
//! | for | use |
//! |---|---|
//! | time that passes, leaps, or differs between machines | [`ManualClock`] |
//! | nodes that stop, freeze and forget | [`Nodes`] |
//! | managers that can be cut off one by one | [`Replica`] |
//! | work that runs while time passes | [`ManualClock::spawn`], [`Task`], [`Sleep`] |
//!
//! # A test
//!
//! Two replicas of a service, and what becomes of their locks when things go wrong:
//!
//! ```
//! use std::{future::IntoFuture, time::Duration};
//! use tower_redlock::{
//!     LockError, LossCause,
//!     testing::{ManualClock, Nodes},
//! };
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), LockError> {
//! let clock = ManualClock::new();
//! let nodes = Nodes::new(5, &clock);
//! let (blue, green) = (nodes.replica("blue"), nodes.replica("green"));
//! let (at_blue, at_green) = (blue.redlock(), green.redlock());
//!
//! // The lock is renewed for as long as blue reaches a majority.
//! let report = clock.sleep(Duration::from_secs(120));
//! let mut work = clock.spawn(at_blue.lock("report").run(|_| report));
//! clock.advance(Duration::from_secs(60));
//! assert!(matches!(at_green.lock("report").await, Err(LockError::Held { .. })));
//!
//! // Cut off, it can't be renewed: the work is dropped before green can have the lock.
//! blue.partition(0..3);
//! clock.advance(Duration::from_secs(10));
//! let stopped = work.take().expect("the TTL is over");
//! assert!(matches!(stopped, Err(LockError::Lost { cause: LossCause::Expired { .. } })));
//! let lock = at_green.lock("report").await?;
//!
//! // Without a majority there is no quorum, and nobody says "held".
//! assert!(matches!(at_blue.lock("invoice").await, Err(LockError::NoQuorum { .. })));
//! blue.heal(0..3);
//!
//! // Blue waits until green gives the lock back.
//! let waiting = at_blue.lock("report").wait(Duration::from_secs(5)).into_future();
//! let mut waiting = clock.spawn(waiting);
//! clock.advance(Duration::from_secs(1));
//! assert!(!waiting.is_finished());
//! drop(lock);
//! clock.advance(Duration::from_secs(1));
//! assert!(waiting.take().expect("it was free for a second").is_ok());
//! # Ok(())
//! # }
//! ```
//!
//! # What is real, and what is not
//!
//! The managers are those of production, renewals, hard stop and fencing included; only time and the
//! nodes are not. A manager draws its pauses between two tries, and the secrets of its leases, at
//! random.
//!
//! Frozen nodes are silent, so that time has to pass before a manager has an answer: spawn what
//! waits as a task of the clock, then [advance](ManualClock::advance).

mod clock;
mod hints;
mod link;
mod nodes;
mod replica;
mod server;
mod tasks;
mod time;
mod turn;

pub use clock::ManualClock;
pub use nodes::Nodes;
pub use replica::Replica;
pub use tasks::{ManualSpawner, Task};
pub use time::Sleep;
