use pin_project::pin_project;

use super::{Check, OnceError, Work, attached::Attached, outcome::Outcome};
use crate::{
    error::LockError,
    lock::{Acquire, Lock, records::Asked},
    time::Sleep,
};

/// How far a request has come.
#[pin_project(project = StateProj)]
#[expect(
    clippy::large_enum_variant,
    reason = "what a task keeps in its own memory need not be allocated once more"
)]
pub(super) enum State<W: Work, C: Check<W::Failure>, J> {
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
        /// Every node is heard: the last word of whoever did the work is the one that is kept longest.
        is_all: bool,
        start: Option<(Lock, W, C)>,
    },
    /// Too few nodes told, or kept what they were told: that may heal.
    Pausing {
        sleep: Sleep,
        start: Option<(Lock, W, C)>,
    },
    /// That the work begins.
    Marking {
        asked: Asked,
        start: Option<(Lock, W, C)>,
    },
    Executing {
        attached: Attached<W, C, J>,
    },
    Over,
}

/// What a poll of a state comes to.
#[expect(clippy::large_enum_variant, reason = "it is moved into its place at once")]
pub(super) enum Next<W: Work, C: Check<W::Failure>, J> {
    State(State<W, C, J>),
    /// The check, and then the work.
    Begin((Lock, W, C)),
    End(Result<Outcome<W::Success>, OnceError<W::Failure>>),
}
