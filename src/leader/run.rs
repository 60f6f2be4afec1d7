//! Campaigns and terms of a candidate.

use std::{
    fmt,
    future::Future,
    pin::pin,
    time::{Duration, SystemTime},
};

use super::{
    Leader, Term,
    backoff::{CampaignBackoff, TermBackoff},
    shared::{Cooldown, TermGuard},
};
use crate::{
    error::{LockError, LossCause},
    guard::Guarded,
    lock::{Inside, Lock, SingleAttempts},
    random,
};

/// How a term ended.
enum TermEnd<T> {
    Returned {
        output: T,
        led_for: Duration,
    },
    Lost(LossCause),
    /// The work was dropped after the grace.
    Dropped,
    /// The lock was over before the work began.
    NotBegun,
}

/// What the work of a term returned, and how long it had led.
type ReturnedWork<T> = (T, Duration);

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
        let mut backoff = TermBackoff::default();
        while let Some((output, led_for)) = self.lead_until_returned(&work).await? {
            // After a resignation the cooldown replaces the pause.
            let pauses = !self.shared.has_stopped() && self.shared.cooldown().is_none();
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
    ) -> Result<Option<ReturnedWork<Fut::Output>>, LockError>
    where
        F: Fn(Term) -> Fut,
        Fut: Future,
    {
        let plan = self.request.plan()?;
        loop {
            let elected = async {
                self.cool_down(plan.ttl).await;
                self.campaign(CampaignBackoff::new(plan.ttl, plan.validity)).await
            };
            let lock = tokio::select! {
                biased;
                () = self.shared.is_stopped() => return Ok(None),
                lock = elected => lock?,
            };
            match self.serve(lock, plan.ttl, work).await {
                TermEnd::Returned { output, led_for } => return Ok(Some((output, led_for))),
                TermEnd::Lost(cause) => {
                    if let Some(on_lost) = &self.on_lost {
                        on_lost.call(cause).await;
                    }
                }
                TermEnd::Dropped | TermEnd::NotBegun => {}
            }
        }
    }

    /// After a resignation or a hang: waits until another leader is seen, or for one TTL.
    async fn cool_down(&self, ttl: Duration) {
        let Some(Cooldown { until, token }) = self.shared.cooldown() else { return };
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
        self.shared.end_cooldown();
    }

    /// Attempts the lock until this candidate is elected.
    async fn campaign(&self, mut backoff: CampaignBackoff) -> Result<Lock, LockError> {
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
                    backoff.after_held(expires_in)
                }
                LockError::Closed
                | LockError::InvalidRequest(_)
                | LockError::InvalidResource(_) => return Err(error),
                LockError::NoQuorum { .. }
                | LockError::TooSlow { .. }
                | LockError::WaitTimedOut { .. }
                | LockError::Lost { .. }
                | LockError::TooManyRecords { .. }
                | LockError::NoRandomness(_) => backoff.after_failure(),
            };
            attempts.pause(random::within(&pause), random::within(&backoff.short())).await;
        }
    }

    /// Leads for one term.
    async fn serve<F, Fut>(&self, lock: Lock, ttl: Duration, work: &F) -> TermEnd<Fut::Output>
    where
        F: Fn(Term) -> Fut,
        Fut: Future,
    {
        let token = lock.fencing_token();
        let clock = self.request.timers().clock();
        let (began, since) = (clock.now(), SystemTime::UNIX_EPOCH + clock.wall());
        // Declared before the work, so that it is dropped after it.
        let mut term = None;
        let started = Guarded::start(lock, |context| {
            term = Some(TermGuard::begin(&self.shared, &self.name, context.clone(), since));
            crate::log::info!(leader = %self.name, %token, "elected");
            Inside::new(&self.shared, work(Term::new(context, since)))
        });
        let (Ok(guarded), Some(term)) = (started, &term) else { return TermEnd::NotBegun };
        let mut guarded = pin!(guarded);
        let ended = tokio::select! {
            biased;
            ended = &mut guarded => Some(ended),
            () = self.grace_is_over(term) => None,
        };
        let led_for = clock.now().saturating_duration_since(began);
        let hung = matches!(
            &ended,
            Some(Err(LockError::Lost {
                cause: LossCause::Stalled { .. } | LossCause::NoHeartbeat { .. }
            }))
        );
        let cools_down = hung || term.has_been_asked_to_resign();
        let cooldown = cools_down.then(|| Cooldown { until: clock.now() + ttl, token });
        let why = term.why_it_ends();
        let (end, hold) = match ended {
            Some(Ok((output, hold))) => (TermEnd::Returned { output, led_for }, Some(hold)),
            Some(Err(error)) => {
                term.step_down(cooldown);
                let LockError::Lost { cause } = error else { return TermEnd::NotBegun };
                crate::log::info!(leader = %self.name, %token, ?led_for, %cause, "leadership lost");
                return TermEnd::Lost(cause);
            }
            None => (TermEnd::Dropped, guarded.as_mut().stop()),
        };
        term.step_down(cooldown);
        if let Some(hold) = hold
            && let Err(error) = hold.give_back().await
        {
            crate::log::debug!(leader = %self.name, %error, "the next leader waits for the TTL");
        }
        let how = match end {
            TermEnd::Dropped => "; the work did not stop by itself, and was dropped",
            _ => "",
        };
        crate::log::info!(leader = %self.name, %token, ?led_for, why, "leads no more{how}");
        end
    }

    async fn grace_is_over(&self, term: &TermGuard) {
        term.is_to_end().await;
        self.pause(self.resign_grace).await;
    }

    async fn pause(&self, pause: Duration) {
        let timers = self.request.timers();
        timers.sleep_until(timers.clock().now() + pause).await;
    }
}

/// Divisor of the TTL for the first query of a cooldown: 2 %. The pause doubles after each query.
const FIRST_LOOK: u32 = 50;
