//! The actions themselves.

use std::time::{Duration, SystemTime};

use tower_redlock::{Redlock, lock::Released};

use super::{Done, failure::ActionFailure};
use crate::{
    access::Action,
    look::HeldLock,
    query::{Params, beginning},
};

/// Maximum length of a reason, in bytes.
const MAX_REASON_BYTES: usize = 200;

/// What a viewer has confirmed.
pub(super) struct Command<'a> {
    pub(super) redlock: &'a Redlock,
    pub(super) by: &'a str,
    pub(super) subject: &'a str,
    pub(super) form: &'a Params,
}

impl Command<'_> {
    /// Returns what was done, also in words.
    pub(super) async fn run(&self, action: Action) -> Result<(Done, String), ActionFailure> {
        let (redlock, subject) = (self.redlock, self.subject);
        // Nodes that do not vote delete keys all the same. The others are given under a lock, and would wait
        // for votes for as long as two TTLs.
        if action != Action::BreakLock {
            redlock.readiness()?;
        }
        match action {
            Action::BreakLock => self.break_lock().await,
            Action::TriggerJob => {
                let command = redlock.trigger_job(subject).by(self.by);
                let command = match self.reason() {
                    Some(why) => command.why(why),
                    None => command,
                };
                let id = command.await?;
                Ok((Done::Requested, format!("run {id} was requested")))
            }
            Action::PauseJob => self.pause().await,
            Action::ResumeJob => {
                redlock.resume_job(subject).by(self.by).await?;
                Ok((Done::Resumed, "the job has no pause any more".into()))
            }
            Action::MarkDone => {
                let mut request = redlock.once(subject);
                if let Some(retain) = self.hours()? {
                    request = request.retain(retain);
                }
                request.mark_done().await?;
                Ok((Done::Recorded, "the key was recorded as done".into()))
            }
            Action::ForgetKey => {
                if redlock.once(subject).forget().await? {
                    Ok((Done::Forgotten, "the record was removed".into()))
                } else {
                    Ok((Done::NoRecord, "there was no record".into()))
                }
            }
        }
    }

    /// Takes a lock away from the holder that was shown, and from no later lease.
    async fn break_lock(&self) -> Result<(Done, String), ActionFailure> {
        let Some(holder) = self.redlock.inspect(self.subject).await? else {
            return Err(ActionFailure::Refused("Nobody holds it any more.".into()));
        };
        let held = HeldLock::from(holder);
        if self.form.get("holder") != Some(&*held.mark()) {
            return Err(ActionFailure::Refused(
                "Another holder has it now than the one that was shown. Look at it again.".into(),
            ));
        }
        let owner = held.shown.owner.as_deref().unwrap_or("a foreign key");
        if self.redlock.revoke(&held.holder).await? == Released::AlreadyLost {
            return Ok((Done::Gone, format!("{owner} had lost it already")));
        }
        let token = held.shown.token;
        Ok((Done::Broken, format!("it was taken away from {owner}, token {token}")))
    }

    async fn pause(&self) -> Result<(Done, String), ActionFailure> {
        let mut command = self.redlock.pause_job(self.subject).by(self.by);
        let mut what = String::from("the job was paused");
        if let Some(why) = self.reason() {
            what = format!("{what}: {why}");
            command = command.why(why);
        }
        if let Some(time) = self.hours()? {
            let until = SystemTime::now().checked_add(time);
            command = command.until(until.ok_or_else(no_hours)?);
        }
        command.await?;
        Ok((Done::Paused, what))
    }

    /// The reason that was given, as far as it can be stored.
    fn reason(&self) -> Option<&str> {
        let why = self.form.get("why")?;
        Some(beginning(why, MAX_REASON_BYTES).trim_end())
    }

    fn hours(&self) -> Result<Option<Duration>, ActionFailure> {
        let Some(hours) = self.form.get("hours") else { return Ok(None) };
        let hours: f64 = hours.parse().map_err(|_| no_hours())?;
        let time = Duration::try_from_secs_f64(hours * 3_600.0).map_err(|_| no_hours())?;
        if time.is_zero() { Err(no_hours()) } else { Ok(Some(time)) }
    }
}

fn no_hours() -> ActionFailure {
    ActionFailure::Refused("Give a number of hours above zero, or nothing.".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hours(form: &str) -> Result<Option<Duration>, ActionFailure> {
        let (redlock, form) = (Redlock::embedded(), Params::parse(form.as_bytes()));
        let command = Command { redlock: &redlock, by: "ann", subject: "report", form: &form };
        command.hours()
    }

    #[test]
    fn hours_are_positive_numbers() {
        assert_eq!(hours(""), Ok(None));
        assert_eq!(hours("hours=1.5"), Ok(Some(Duration::from_secs(5_400))));
        for wrong in ["0", "-1", "NaN", "inf", "x", "1e300"] {
            assert_eq!(hours(&format!("hours={wrong}")), Err(no_hours()), "{wrong}");
        }
    }

    #[tokio::test]
    async fn later_holder_keeps_its_lock() {
        let redlock = Redlock::embedded();
        let first = redlock.lock("invoice").await.unwrap();
        let shown = HeldLock::from(redlock.inspect("invoice").await.unwrap().unwrap());
        first.release().await.unwrap();
        let second = redlock.lock("invoice").await.unwrap();
        let form = Params::parse(format!("holder={}", shown.mark()).as_bytes());
        let command = Command { redlock: &redlock, by: "ann", subject: "invoice", form: &form };
        let refused = command.run(Action::BreakLock).await;
        assert!(matches!(refused, Err(ActionFailure::Refused(_))), "{refused:?}");
        assert!(second.is_valid());
        let shown = HeldLock::from(redlock.inspect("invoice").await.unwrap().unwrap());
        let form = Params::parse(format!("holder={}", shown.mark()).as_bytes());
        let command = Command { redlock: &redlock, by: "ann", subject: "invoice", form: &form };
        assert_eq!(command.run(Action::BreakLock).await.unwrap().0, Done::Broken);
        assert!(redlock.inspect("invoice").await.unwrap().is_none());
    }
}
