use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

#[cfg(feature = "http")]
use super::detach::Away;
use super::{Check, Completes, OnceError, Work, execution::Execution, outcome::Outcome};

/// Work in the hands of its caller. Where that drops it, the work goes on by itself, if it may.
pub(super) struct Attached<W: Work, C: Check<W::Failure>, J> {
    /// On the heap: it may have to move to another task in the middle. `None` once it has ended.
    execution: Option<Pin<Box<Execution<W, C, J>>>>,
    /// A poll is under way, or has panicked.
    in_poll: bool,
    #[cfg(feature = "http")]
    away: Option<Away<Execution<W, C, J>>>,
}

impl<W: Work, C: Check<W::Failure>, J> Attached<W, C, J> {
    pub(super) fn new(execution: Execution<W, C, J>) -> Self {
        Self {
            execution: Some(Box::pin(execution)),
            in_poll: false,
            #[cfg(feature = "http")]
            away: None,
        }
    }

    /// The work goes on by `away` where its caller drops it.
    #[cfg(feature = "http")]
    pub(super) fn detachable(self, away: Option<Away<Execution<W, C, J>>>) -> Self {
        let mut this = self;
        this.away = away;
        this
    }

    pub(super) fn name(&self) -> &'static str {
        self.execution.as_ref().map_or("over", |execution| execution.name())
    }
}

impl<W, C, J> Future for Attached<W, C, J>
where
    W: Work,
    C: Check<W::Failure>,
    J: Completes<W::Success>,
{
    type Output = Result<Outcome<W::Success>, OnceError<W::Failure>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let execution = this.execution.as_mut().expect("polled after it was ready");
        this.in_poll = true;
        let polled = execution.as_mut().poll(cx);
        this.in_poll = false;
        if polled.is_ready() {
            this.execution = None;
        }
        polled
    }
}

#[cfg(feature = "http")]
impl<W: Work, C: Check<W::Failure>, J> Drop for Attached<W, C, J> {
    fn drop(&mut self) {
        if !self.in_poll
            && let (Some(execution), Some(away)) = (self.execution.take(), self.away.take())
        {
            away.go_on(execution);
        }
    }
}
