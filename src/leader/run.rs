use std::{
    fmt,
    future::Future,
    pin::pin,
    time::{Duration, SystemTime},
};

use super::{
    Leader, Term,
    backoff::Backoff,
    pace::Pace,
    shared::{StandsBack, Tenure},
};
use crate::{
    error::{LockError, LossCause},
    guard::Guarded,
    lock::{Lock, SingleAttempts},
    random,
    token::FencingToken,
};

/// How a term ended.
enum End<T> {
    Returned {
        output: T,
        led_for: Duration,
    },
    Lost(LossCause),
    /// The work had not stopped by itself when the grace was over.
    Dropped,
    /// It was over before it began.
    NotBegun,
}

/// What the work of a term returned, and how long it had led.
type Returned<T> = (T, Duration);

impl Leader {
    pub(super) async fn lead<F, Fut>(self, work: F) -> Result<Option<Fut::Output>, LockError>
    where
        F: Fn(Term) -> Fut,
        Fut: Future,
    {
        let _candidacy = self.shared.stand(&self.name)?;
        let returned = self.lead_until_returned(&work).await?;
        Ok(returned.map(|(output, _)| output))
    }

    pub(super) async fn lead_on<F, Fut, E>(self, work: F) -> Result<(), LockError>
    where
        F: Fn(Term) -> Fut,
        Fut: Future<Output = Result<(), E>>,
        E: fmt::Display,
    {
        let _candidacy = self.shared.stand(&self.name)?;
        let mut backoff = Backoff::default();
        while let Some((output, led_for)) = self.lead_until_returned(&work).await? {
            // Who resigned stands back, and needs no other pause.
            let pauses = !self.shared.has_stopped() && self.shared.stands_back().is_none();
            let longest = if pauses { backoff.after(led_for) } else { Duration::ZERO };
            let pause = random::within(&(longest / 2..=longest));
            if let Err(error) = output {
                crate::log::warn!(
                    leader = %self.name, %error, ?led_for, ?pause,
                    "the leader's work failed: it campaigns again after a pause"
                );
            }
            tokio::select! {
                biased;
                () = self.shared.is_stopped() => {}
                () = self.pause(pause) => {}
            }
        }
        Ok(())
    }

    /// Leads, term by term, until the work returns; `None` once the candidate is stopped.
    async fn lead_until_returned<F, Fut>(
        &self,
        work: &F,
    ) -> Result<Option<Returned<Fut::Output>>, LockError>
    where
        F: Fn(Term) -> Fut,
        Fut: Future,
    {
        let plan = self.request.plan()?;
        loop {
            let elected = async {
                self.stand_back(plan.ttl).await;
                self.campaign(Pace::new(plan.ttl, plan.validity)).await
            };
            let lock = tokio::select! {
                biased;
                () = self.shared.is_stopped() => return Ok(None),
                lock = elected => lock?,
            };
            match self.serve(lock, plan.ttl, work).await {
                End::Returned { output, led_for } => return Ok(Some((output, led_for))),
                End::Lost(cause) => {
                    if let Some(on_lost) = &self.on_lost {
                        on_lost.call(cause).await;
                    }
                }
                End::Dropped | End::NotBegun => {}
            }
        }
    }

    /// After a resignation or a hang: waits until another leader was seen, or until nobody came for a TTL.
    async fn stand_back(&self, ttl: Duration) {
        let Some(StandsBack { until, token }) = self.shared.stands_back() else { return };
        let clock = self.request.timers().clock();
        let mut pause = ttl / FIRST_LOOK;
        while clock.now() < until {
            self.pause(pause.min(until.saturating_duration_since(clock.now()))).await;
            pause *= 2;
            if let Some(holder) = self.request.holder().await
                && holder.token > token
            {
                self.shared.is_standby(holder.owner);
                break;
            }
        }
        self.shared.set_stands_back(None);
    }

    /// Tries until this candidate is the leader.
    async fn campaign(&self, mut pace: Pace) -> Result<Lock, LockError> {
        let mut attempts = SingleAttempts::new(self.request.clone())?;
        loop {
            let error = match attempts.attempt().await {
                Ok(lock) => return Ok(lock),
                Err(error) => error,
            };
            crate::log::trace!(leader = %self.name, %error, "not elected");
            let pause = match error {
                LockError::Held { expires_in, owner, .. } => {
                    self.shared.is_standby(owner);
                    pace.after_held(expires_in)
                }
                LockError::Closed
                | LockError::Forked { .. }
                | LockError::InvalidRequest(_)
                | LockError::InvalidResource(_) => return Err(error),
                LockError::NoQuorum { .. }
                | LockError::TooSlow { .. }
                | LockError::WaitTimedOut { .. }
                | LockError::Lost { .. }
                | LockError::TooManyRecords { .. }
                | LockError::NoRandomness(_) => pace.after_failure(),
            };
            attempts.pause(random::within(&pause), random::within(&pace.short())).await;
        }
    }

    /// Leads for one term.
    async fn serve<F, Fut>(&self, lock: Lock, ttl: Duration, work: &F) -> End<Fut::Output>
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
        let led_for = clock.now().saturating_duration_since(began);
        let hung = matches!(
            &ended,
            Some(Err(LockError::Lost {
                cause: LossCause::Stalled { .. } | LossCause::NoHeartbeat { .. }
            }))
        );
        if hung || tenure.has_been_asked_to_resign() {
            let until = clock.now() + ttl;
            self.shared.set_stands_back(Some(StandsBack { until, token }));
        }
        let (end, hold) = match ended {
            Some(Ok((output, hold))) => (End::Returned { output, led_for }, Some(hold)),
            Some(Err(error)) => return self.lost(tenure, error, token, led_for),
            None => (End::Dropped, guarded.as_mut().stop()),
        };
        tenure.step_down();
        if let Some(hold) = hold
            && let Err(error) = hold.give_back().await
        {
            crate::log::debug!(leader = %self.name, %error, "the next leader waits for the TTL");
        }
        let why = match (tenure.has_been_asked_to_resign(), self.shared.has_stopped()) {
            (_, true) => "stopped",
            (true, false) => "resigned",
            (false, false) => "the work returned",
        };
        if matches!(end, End::Dropped) {
            crate::log::info!(
                leader = %self.name, %token, ?led_for, why,
                "leads no more; the work did not stop by itself, and was dropped"
            );
        } else {
            crate::log::info!(leader = %self.name, %token, ?led_for, why, "leads no more");
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
        End::Lost(cause)
    }

    async fn grace_is_over(&self, tenure: &Tenure) {
        tenure.is_to_end().await;
        self.pause(self.resign_grace).await;
    }

    async fn pause(&self, pause: Duration) {
        let timers = self.request.timers();
        timers.sleep_until(timers.clock().now() + pause).await;
    }
}

/// Of a TTL: a candidate that stands back looks for the next leader after 2 %, and then after twice
/// the pause each time.
const FIRST_LOOK: u32 = 50;
