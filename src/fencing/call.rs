use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use pin_project::pin_project;

use super::{FencingError, memory::Visit};
use crate::resource::Resource;

/// A future that is polled only while no newer token than its own has come.
#[pin_project]
pub(super) struct Fenced<F> {
    #[pin]
    state: State<F>,
}

#[pin_project(project = StateProj)]
enum State<F> {
    Refused {
        error: Option<FencingError>,
    },
    Unfenced {
        #[pin]
        future: F,
    },
    /// The future is dropped before the visit ends: the fields are dropped in this order.
    Running {
        #[pin]
        future: F,
        visit: Visit,
        resource: Resource,
    },
    Over,
}

impl<F> Fenced<F> {
    pub(super) fn refused(error: FencingError, resource: Option<&Resource>) -> Self {
        error.log(resource);
        Self { state: State::Refused { error: Some(error) } }
    }

    pub(super) const fn unfenced(future: F) -> Self {
        Self { state: State::Unfenced { future } }
    }

    pub(super) const fn running(future: F, visit: Visit, resource: Resource) -> Self {
        Self { state: State::Running { future, visit, resource } }
    }

    pub(super) const fn name(&self) -> &'static str {
        match self.state {
            State::Refused { .. } => "refused",
            State::Unfenced { .. } => "unfenced",
            State::Running { .. } => "running",
            State::Over => "over",
        }
    }
}

impl<F: Future> Future for Fenced<F> {
    type Output = Result<F::Output, FencingError>;

    /// # Panics
    ///
    /// If polled again after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let (future, visit, resource) = match this.state.as_mut().project() {
            StateProj::Refused { error } => {
                return Poll::Ready(Err(error.take().expect("polled after it was ready")));
            }
            StateProj::Unfenced { future } => return future.poll(cx).map(Ok),
            StateProj::Running { future, visit, resource } => (future, visit, resource),
            StateProj::Over => panic!("polled after it was ready"),
        };
        // Watch first: a token that comes after the check below then wakes this task.
        visit.watch(cx);
        let result = match visit.overtaken() {
            Some(error) => Err(error),
            None => match (future.poll(cx), visit.overtaken()) {
                // The poll began in time: its result is the truth about the work.
                (Poll::Ready(output), _) => Ok(output),
                (Poll::Pending, Some(error)) => Err(error),
                (Poll::Pending, None) => return Poll::Pending,
            },
        };
        if let Err(error) = &result {
            error.log(Some(resource));
        }
        this.state.set(State::Over);
        Poll::Ready(result)
    }
}
