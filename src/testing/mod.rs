//! Tests of code that takes locks: a clock that the test moves, and nodes that fail on demand. No
//! sleeping, no servers, and the same outcome in every run. Feature `testing`.
//!
//! | for | use |
//! |---|---|
//! | time that passes, leaps, or differs between machines | [`ManualClock`] |
//! | nodes that stop, freeze and forget | [`Nodes`] |
//! | managers that can be cut off one by one | [`Replica`] |
//! | what a job or a leader is given, to test its function alone | `job_context`, `term` |
//! | work that runs while time passes | [`ManualClock::spawn`], [`Task`], [`ManualSleep`] |
//!
//! # A test
//!
//! Two replicas of a service, one of which is cut off:
//!
//! ```
//! use std::{future::IntoFuture, time::Duration};
//! use tower_redlock::{error::LossCause, testing::{ManualClock, Nodes}, LockError};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), LockError> {
//! let clock = ManualClock::new();
//! let nodes = Nodes::new(5, &clock);
//! let (blue, green) = (nodes.replica("blue"), nodes.replica("green"));
//! let (at_blue, at_green) = (blue.redlock(), green.redlock());
//!
//! // The lock is renewed while blue reaches a majority.
//! let report = clock.sleep(Duration::from_secs(120));
//! let mut work = clock.spawn(at_blue.lock("report").run(|_| report));
//! clock.advance(Duration::from_secs(60));
//! assert!(matches!(at_green.lock("report").await, Err(LockError::Held { .. })));
//!
//! // Cut off, it can't be renewed: the work is dropped before green can take the lock.
//! blue.partition(0..3);
//! clock.advance(Duration::from_secs(10));
//! let stopped = work.take().expect("the TTL is over");
//! assert!(matches!(stopped, Err(LockError::Lost { cause: LossCause::Expired { .. } })));
//! let lock = at_green.lock("report").await?;
//!
//! // Without a majority the error is NoQuorum, not Held.
//! assert!(matches!(at_blue.lock("invoice").await, Err(LockError::NoQuorum { .. })));
//! blue.heal(0..3);
//!
//! // Blue waits until green releases the lock.
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
//! # A scheduler
//!
//! Jobs over a replica's manager run as tasks of the clock, without a runtime. Two replicas share an
//! hourly job; then the nodes are gone for three hours:
//!
//! ```
//! use std::time::Duration;
//! use tower_redlock::{
//!     Job, Schedule, Scheduler,
//!     scheduler::{Missed, StartError},
//!     testing::{ManualClock, Nodes, Replica},
//! };
//!
//! const HOUR: Duration = Duration::from_secs(3600);
//! const SECOND: Duration = Duration::from_secs(1);
//!
//! # fn main() -> Result<(), StartError> {
//! let clock = ManualClock::new();
//! let nodes = Nodes::new(3, &clock);
//! let (tell, ran) = std::sync::mpsc::channel();
//! let start = |replica: &Replica| {
//!     let (tell, sleep) = (tell.clone(), clock.clone());
//!     let report = Job::new("report", Schedule::every(HOUR), move |cx| {
//!         let (tell, sleep) = (tell.clone(), sleep.sleep(10 * SECOND));
//!         async move {
//!             sleep.await;
//!             tell.send(cx.lateness() > SECOND)
//!         }
//!     });
//!     Scheduler::new(replica.redlock()).job(report.missed(Missed::RunLatest)).start()
//! };
//! let (blue, green) = (nodes.replica("blue"), nodes.replica("green"));
//! let (at_blue, at_green) = (start(&blue)?, start(&green)?);
//!
//! // Each tick runs once, on one of the two.
//! clock.advance(2 * HOUR + 11 * SECOND);
//! assert_eq!(ran.try_iter().collect::<Vec<_>>(), [false, false]);
//!
//! // Without a quorum nothing runs. The latest tick is made up for when there is one again.
//! nodes.stop([0, 1]);
//! clock.advance(3 * HOUR);
//! assert_eq!(ran.try_iter().count(), 0);
//! nodes.start([0, 1]);
//! clock.advance(20 * SECOND);
//! assert_eq!(ran.try_iter().collect::<Vec<_>>(), [true]);
//!
//! // A replica that is cut off runs nothing; the other continues.
//! green.partition(0..3);
//! let before = at_blue.jobs()[0].counts.finished;
//! clock.advance(4 * HOUR);
//! assert_eq!(at_blue.jobs()[0].counts.finished, before + 4);
//! assert!(at_green.jobs()[0].running.is_none());
//! # Ok(())
//! # }
//! ```
//!
//! # A leader
//!
//! A candidate is a future, run as a task of the clock:
//!
//! ```
//! use std::time::Duration;
//! use tower_redlock::{
//!     Term,
//!     testing::{ManualClock, Nodes},
//! };
//!
//! const SECOND: Duration = Duration::from_secs(1);
//!
//! let clock = ManualClock::new();
//! let nodes = Nodes::new(3, &clock);
//! let (blue, green) = (nodes.replica("blue"), nodes.replica("green"));
//! let [at_blue, at_green] = [&blue, &green].map(|replica| replica.redlock().leader("rebalancer"));
//!
//! // Leads until a stop is requested.
//! let work = |term: Term| async move { term.stopping().await };
//! let mut of_blue = clock.spawn(at_blue.run(work));
//! clock.settle();
//! let _of_green = clock.spawn(at_green.run(work));
//! clock.advance(60 * SECOND);
//! assert!(at_blue.is_leader() && !at_green.is_leader());
//!
//! // Cut off, blue's term ends with its lock, and only then green's begins.
//! blue.partition(0..3);
//! clock.advance(9 * SECOND);
//! assert!(!at_green.is_leader());
//! clock.advance(3 * SECOND);
//! assert!(at_green.is_leader() && !at_blue.is_leader());
//! # let _ = of_blue.take();
//! ```
//!
//! # Work that sleeps, and work that blocks
//!
//! | the work | in a test |
//! |---|---|
//! | sleeps by [`ManualClock::sleep`] | [`advance`](ManualClock::advance) |
//! | sleeps or has timeouts by `tokio::time`, or spawns tasks | [`advance_with_tokio`](ManualClock::advance_with_tokio), on a runtime whose time is paused |
//! | blocks ([`Job::blocking`](crate::Job::blocking)) | `advance`: time does not move until the work returns |
//!
//! Blocking work runs on the thread that moves the clock, and must not wait for what that thread does
//! later. It takes time by moving the clock itself; `std::thread::sleep` takes none.
//!
//! A job whose function sleeps as it does in production, by `tokio::time`:
//!
//! ```
//! use std::time::Duration;
//! use tower_redlock::{
//!     Job, JobContext, LockError, Schedule, Scheduler,
//!     scheduler::{Outcome, StartError},
//!     testing::{ManualClock, Nodes},
//! };
//!
//! const SECOND: Duration = Duration::from_secs(1);
//!
//! async fn import(cx: JobContext) -> Result<(), LockError> {
//!     for _page in 0..20 {
//!         cx.ensure_valid()?;
//!         tokio::time::sleep(SECOND).await;
//!     }
//!     Ok(())
//! }
//!
//! // In a test: #[tokio::test(start_paused = true)]
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), StartError> {
//! let clock = ManualClock::new();
//! let redlock = Nodes::new(3, &clock).replica("blue").redlock();
//! let every_minute = Schedule::every(60 * SECOND);
//! let job = Job::new("import", every_minute, import).max_run(30 * SECOND);
//! let jobs = Scheduler::new(redlock).job(job).start()?;
//!
//! clock.advance_with_tokio(79 * SECOND).await;
//! assert!(jobs.jobs()[0].running.is_some());
//! clock.advance_with_tokio(SECOND).await;
//! let last = jobs.jobs()[0].last.clone().expect("a minute and 20 s have passed");
//! assert_eq!((last.outcome, last.took), (Outcome::Finished, 20 * SECOND));
//! # Ok(())
//! # }
//! ```
//!
//! # What is real, and what is not
//!
//! The managers are those of production, renewals, hard stop and fencing included. Time, nodes and
//! randomness are simulated: backoffs and nonces are drawn from the clock's
//! [seed](ManualClock::with_seed) while it is moved. The same test has the same outcome in every run
//! if all that waits are tasks of the clock.
//!
//! An operation on frozen nodes ends only as time passes: spawn its future as a task of the clock,
//! then [advance](ManualClock::advance).
//!
//! Nodes that no client has used before, or that forgot, begin with a probation: see
//! [`Nodes`](Nodes#probations).

mod clock;
#[cfg(feature = "scheduler")]
mod contexts;
mod network;
mod node_indices;
mod nodes;
mod probation;
mod reentrant_lock;
mod replica;
mod sim_server;
mod sim_state;
mod tasks;
mod time;

pub use clock::ManualClock;
#[cfg(feature = "scheduler")]
pub use contexts::{JobContextBuilder, UnderLock, job_context, term};
pub use node_indices::NodeIndices;
pub use nodes::Nodes;
pub use replica::Replica;
pub use tasks::{ManualSpawner, Task};
pub use time::ManualSleep;
