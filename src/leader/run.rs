use std::{
    future::{Future, IntoFuture},
    pin::pin,
    time::{Duration, SystemTime},
};

use super::{Leader, Term, pace::Pace, shared::Tenure};
use crate::{
    error::{LockError, LossCause},
    guard::Guarded,
    lock::Lock,
    random,
    token::FencingToken,
};

/// How a term ended.
enum End<T> {
    Returned(T),
    Lost {
        cause: LossCause,
        asked_to_resign: bool,
    },
    /// The work had not stopped by itself when the grace was over.
    Dropped,
    /// It was over before it began.
    NotBegun,
}

impl Leader {
    pub(super) async fn lead<F, Fut>(self, work: F) -> Result<Fut::Output, LockError>
    where
        F: Fn(Term) -> Fut,
        Fut: Future,
    {
        let _candidacy = self.shared.stand(&self.name)?;
        let plan = self.request.plan()?;
        loop {
            let lock = self.campaign(Pace::new(plan.ttl, plan.validity)).await?;
            let stands_back = match self.serve(lock, &work).await {
                End::Returned(output) => return Ok(output),
                End::Lost { cause, asked_to_resign } => {
                    if let Some(on_lost) = &self.on_lost {
                        on_lost.call(cause).await;
                    }
                    asked_to_resign
                }
                End::Dropped => true,
                End::NotBegun => false,
            };
            if stands_back {
                self.pause(plan.ttl).await;
            }
        }
    }

    /// Tries until this candidate is the leader.
    async fn campaign(&self, mut pace: Pace) -> Result<Lock, LockError> {
        loop {
            let error = match self.request.clone().into_future().await {
                Ok(lock) => return Ok(lock),
                Err(error) => error,
            };
            crate::log::trace!(leader = %self.name, %error, "not elected");
            let pause = match error {
                LockError::Held { retry_after, owner } => {
                    self.shared.is_standby(owner);
                    pace.after_held(retry_after)
                }
                LockError::Closed
                | LockError::Forked { .. }
                | LockError::InvalidRequest(_)
                | LockError::InvalidResource(_) => return Err(error),
                LockError::NoQuorum { .. }
                | LockError::TooSlow { .. }
                | LockError::WaitTimedOut { .. }
                | LockError::Lost { .. }
                | LockError::NoRandomness(_) => pace.after_failure(),
            };
            self.pause(random::within(&pause)).await;
        }
    }

    /// Leads for one term.
    async fn serve<F, Fut>(&self, lock: Lock, work: &F) -> End<Fut::Output>
    where
        F: Fn(Term) -> Fut,
        Fut: Future,
    {
        let token = lock.fencing_token();
        let clock = self.request.timers().clock();
        let (began, since) = (clock.now(), SystemTime::UNIX_EPOCH + clock.wall());
        // Before the work, so that it is dropped after it: a resignation is over when the work is.
        let mut tenure = None;
        let started = Guarded::start(lock, |context| {
            tenure = Some(Tenure::begin(&self.shared, context.clone(), since));
            crate::log::info!(leader = %self.name, %token, "elected");
            work(Term::new(context, since))
        });
        let (Ok(guarded), Some(tenure)) = (started, &tenure) else { return End::NotBegun };
        let mut guarded = pin!(guarded);
        let ended = tokio::select! {
            biased;
            ended = &mut guarded => Some(ended),
            () = self.grace_is_over(tenure) => None,
        };
        let led_for = clock.now().since(began);
        let (end, hold) = match ended {
            Some(Ok((output, hold))) => (End::Returned(output), Some(hold)),
            Some(Err(error)) => return self.lost(tenure, error, token, led_for),
            None => (End::Dropped, guarded.as_mut().stop()),
        };
        tenure.step_down();
        if let Some(hold) = hold
            && let Err(error) = hold.give_back().await
        {
            crate::log::debug!(leader = %self.name, %error, "the next leader waits for the TTL");
        }
        match &end {
            End::Dropped => crate::log::info!(
                leader = %self.name, %token, ?led_for,
                "resigned; the work did not stop by itself, and was dropped"
            ),
            _ if tenure.has_been_asked_to_resign() => {
                crate::log::info!(leader = %self.name, %token, ?led_for, "resigned");
            }
            _ => {
                crate::log::info!(leader = %self.name, %token, ?led_for, "the term's work is done");
            }
        }
        end
    }

    fn lost<T>(
        &self,
        tenure: &Tenure,
        error: LockError,
        token: FencingToken,
        led_for: Duration,
    ) -> End<T> {
        tenure.step_down();
        let LockError::Lost { cause } = error else { return End::NotBegun };
        crate::log::info!(leader = %self.name, %token, ?led_for, %cause, "leadership lost");
        End::Lost { cause, asked_to_resign: tenure.has_been_asked_to_resign() }
    }

    async fn grace_is_over(&self, tenure: &Tenure) {
        tenure.is_asked_to_resign().await;
        self.pause(self.resign_grace).await;
    }

    async fn pause(&self, pause: Duration) {
        let timers = self.request.timers();
        timers.sleep_until(timers.clock().now() + pause).await;
    }
}
