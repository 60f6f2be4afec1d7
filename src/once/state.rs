use pin_project::pin_project;

use super::{Check, OnceError, Work, outcome::Outcome, recording::Recording, work::Checked};
use crate::{
    error::LockError,
    guard::{Guarded, Hold},
    lock::{Acquire, Lock, records::Asked},
};

/// How far a request has come.
#[pin_project(project = StateProj)]
#[expect(
    clippy::large_enum_variant,
    reason = "what a task keeps in its own memory need not be allocated once more"
)]
pub(super) enum State<W: Work, C: Check<W::Failure>> {
    Rejected {
        error: LockError,
    },
    Unguarded {
        #[pin]
        work: W::Future,
    },
    Acquiring {
        acquire: Acquire,
        start: Option<(W, C)>,
    },
    /// The lock is another's: perhaps the work is done all the same.
    Looking {
        asked: Asked,
        refusal: LockError,
    },
    /// Under the lock.
    Reading {
        asked: Asked,
        start: Option<(Lock, W, C)>,
    },
    /// That the work begins.
    Marking {
        asked: Asked,
        start: Option<(Lock, W, C)>,
    },
    Running {
        #[pin]
        guarded: Guarded<Checked<W, C>>,
    },
    /// The work is over; the lock is renewed still.
    Completing {
        recording: Recording,
        /// `None` where the check found that it was done.
        output: Option<W::Success>,
        hold: Hold,
    },
    Over,
}

/// What a poll of a state comes to.
#[expect(clippy::large_enum_variant, reason = "it is moved into its place at once")]
pub(super) enum Next<W: Work, C: Check<W::Failure>> {
    State(State<W, C>),
    End(Result<Outcome<W::Success>, OnceError<W::Failure>>),
}
