//! The actions themselves.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use tower_redlock::{Redlock, lock::Released, scheduler::JobCommand};

use super::outcome::{Acted, Done};
use crate::{
    access::{Action, Viewer},
    cache::{HeldLock, ShownLock},
    problem::Problem,
    query::Params,
    set_place::SetPlace,
    text::beginning,
};

/// Maximum length of a reason, in bytes.
const MAX_REASON_BYTES: usize = 200;
/// The field that identifies the holder that was shown.
pub(crate) const HOLDER: &str = "holder";

/// An action that a viewer has confirmed.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) action: Action,
    /// The name of the lock or job, or the key.
    pub(crate) subject: Arc<str>,
    pub(super) by: Arc<str>,
    pub(crate) form: Params,
}

impl Command {
    /// Returns what a form confirms.
    pub(crate) fn new(action: Action, viewer: &Viewer, form: Params) -> Result<Self, Problem> {
        let subject = form.exact(action.subject().param());
        let lacks = || Problem::bad_request("The form does not say what it is about.");
        let subject = subject.ok_or_else(lacks)?.into();
        Ok(Self { action, subject, by: viewer.recorded_name(), form })
    }

    pub(super) async fn run(&self, redlock: &Redlock) -> Acted {
        let subject = &*self.subject;
        // Nodes delete the keys of a lock even while they do not vote. All other actions need a lock, and
        // would wait for a quorum of the name's set.
        if self.action != Action::BreakLock {
            let set = SetPlace::of(redlock, self.action.subject(), subject);
            redlock.sets()[set.map_or(0, |place| place.index)].readiness()?;
        }
        match self.action {
            Action::BreakLock => self.break_lock(redlock).await,
            Action::TriggerJob => {
                let id = self.signed(redlock.trigger_job(subject)).await?;
                Ok((Done::RunRequested, self.explained(format!("run {id} was requested"))))
            }
            Action::StopJob => self.stop(redlock).await,
            Action::PauseJob => self.pause(redlock).await,
            Action::ResumeJob => {
                self.signed(redlock.resume_job(subject)).await?;
                Ok((Done::Resumed, "the job has no pause any more".into()))
            }
            Action::MarkDone => {
                let mut request = redlock.once_key(subject);
                if let Some(retain) = self.hours()? {
                    request = request.retain(retain);
                }
                request.mark_done().await?;
                Ok((Done::Recorded, "the key was recorded as done".into()))
            }
            Action::ForgetKey => Ok(if redlock.once_key(subject).forget().await? {
                (Done::Forgotten, "the record was removed".into())
            } else {
                (Done::NoRecord, "there was no record".into())
            }),
        }
    }

    /// Takes a lock away from the holder that was shown, and from no later lease.
    async fn break_lock(&self, redlock: &Redlock) -> Acted {
        let Some(holder) = redlock.inspect(&*self.subject).await? else {
            return Err(Problem::not_done("No process holds it any more."));
        };
        let held = HeldLock::from(holder);
        self.expect(&held.shown, "holder has it")?;
        let owner = held.shown.owner.as_deref().unwrap_or("a foreign key");
        if redlock.revoke(&held.holder).await? == Released::AlreadyLost {
            return Ok((Done::LockGone, format!("{owner} had lost it already")));
        }
        let token = held.shown.token;
        Ok((Done::LockBroken, format!("it was taken away from {owner}, token {token}")))
    }

    /// Requests the end of the run that was shown.
    async fn stop(&self, redlock: &Redlock) -> Acted {
        let holders = redlock.job_holders(&self.subject).await?;
        let mut holders = holders.iter().map(ShownLock::from);
        // All runs of a parallel job are stopped.
        if let Some(holder) = holders.next()
            && holder.slot.is_none()
            && holders.next().is_none()
        {
            self.expect(&holder, "run is in progress")?;
        }
        let run = self.signed(redlock.stop_job(&*self.subject)).await?;
        Ok((
            Done::StopRequested,
            self.explained(format!("the run with token {run} was asked to stop")),
        ))
    }

    /// Refuses to act on a later holder than the one that the form was shown for.
    fn expect(&self, holder: &ShownLock, later: &str) -> Result<(), Problem> {
        if self.form.get(HOLDER) == Some(&*holder.mark()) {
            return Ok(());
        }
        let what = format!("Another {later} now than the one that was shown. Look at it again.");
        Err(Problem::not_done(what))
    }

    async fn pause(&self, redlock: &Redlock) -> Acted {
        let mut command = self.signed(redlock.pause_job(&*self.subject));
        if let Some(time) = self.hours()? {
            let until = SystemTime::now().checked_add(time);
            command = command.until(until.ok_or_else(no_hours)?);
        }
        command.await?;
        Ok((Done::Paused, self.explained("the job was paused".into())))
    }

    /// Adds the viewer's name and reason to a command.
    fn signed<T>(&self, command: JobCommand<T>) -> JobCommand<T> {
        let command = command.by(Arc::clone(&self.by));
        match self.reason() {
            Some(why) => command.why(why),
            None => command,
        }
    }

    /// Adds the reason to what was done.
    fn explained(&self, what: String) -> String {
        match self.reason() {
            Some(why) => format!("{what}: {why}"),
            None => what,
        }
    }

    /// Returns the reason that was given, as far as it can be stored.
    fn reason(&self) -> Option<&str> {
        let why = self.form.get("why")?;
        Some(beginning(why, MAX_REASON_BYTES).trim_end())
    }

    fn hours(&self) -> Result<Option<Duration>, Problem> {
        let Some(hours) = self.form.get("hours") else { return Ok(None) };
        let hours: f64 = hours.parse().map_err(|_| no_hours())?;
        let time = Duration::try_from_secs_f64(hours * 3_600.0).map_err(|_| no_hours())?;
        if time.is_zero() { Err(no_hours()) } else { Ok(Some(time)) }
    }
}

fn no_hours() -> Problem {
    Problem::not_done("Give a number of hours above zero, or nothing.")
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tower_redlock::{LockError, Resource, Schedule};

    use super::*;
    use crate::access::Access;

    /// Returns what the viewer `ann` confirms by a form.
    fn command(action: Action, form: &str) -> Command {
        let form = Params::parse(form.as_bytes());
        Command::new(action, &Access::All.by("ann"), form).unwrap()
    }

    #[test]
    fn hours_are_positive_numbers() {
        let hours = |hours: &str| command(Action::PauseJob, &format!("name=report{hours}")).hours();
        assert_eq!(hours(""), Ok(None));
        assert_eq!(hours("&hours=1.5"), Ok(Some(Duration::from_secs(5_400))));
        for wrong in ["0", "-1", "NaN", "inf", "x", "1e300"] {
            assert_eq!(hours(&format!("&hours={wrong}")), Err(no_hours()), "{wrong}");
        }
    }

    #[tokio::test]
    async fn pause_ends_after_its_hours() {
        let redlock = Redlock::embedded();

        command(Action::PauseJob, "name=report&why=&hours=2").run(&redlock).await.unwrap();

        let pause = redlock.job_control("report").await.unwrap().paused.unwrap();
        let left = pause.until.unwrap().duration_since(pause.at).unwrap();
        assert_eq!(left.as_secs().div_ceil(60), 120);
        assert_eq!((&*pause.by, pause.why), ("ann", None));
    }

    #[tokio::test]
    async fn later_holder_keeps_its_lock() {
        let redlock = Redlock::embedded();
        let shown = async || {
            let held = HeldLock::from(redlock.inspect("invoice").await.unwrap().unwrap());
            format!("name=invoice&holder={}", held.shown.mark())
        };
        let first = redlock.lock("invoice").await.unwrap();
        let form = shown().await;
        first.release().await.unwrap();
        let second = redlock.lock("invoice").await.unwrap();

        let refused = command(Action::BreakLock, &form).run(&redlock).await;

        assert!(refused.is_err_and(|problem| problem.status == 409));
        assert!(second.is_valid());
        let broken = command(Action::BreakLock, &shown().await).run(&redlock).await;
        assert_eq!(broken.unwrap().0, Done::LockBroken);
        assert!(redlock.inspect("invoice").await.unwrap().is_none());
    }

    #[tokio::test]
    async fn shown_run_is_stopped() {
        let redlock = Redlock::embedded();
        let idle = command(Action::StopJob, "name=report&holder=1").run(&redlock).await;
        assert_eq!(idle, Err(Problem::not_done(r#"job "report" is not running"#)));
        let tick = redlock.job_tick("report", Schedule::every(Duration::from_secs(60)));
        let (start, begun) = tokio::sync::oneshot::channel();
        let work = move |_| {
            start.send(()).unwrap();
            pending::<Result<(), LockError>>()
        };
        let run = tokio::spawn(tick.run(work));
        begun.await.unwrap();
        let job = Resource::of_job("report").unwrap();
        let lock = ShownLock::from(&redlock.inspect(job).await.unwrap().unwrap());

        let later = command(Action::StopJob, "name=report&holder=0").run(&redlock).await;
        let form = format!("name=report&holder={}&why=stuck", lock.mark());
        let stopped = command(Action::StopJob, &form).run(&redlock).await;

        assert!(later.is_err_and(|problem| problem.status == 409));
        let what = format!("the run with token {} was asked to stop: stuck", lock.token);
        assert_eq!(stopped, Ok((Done::StopRequested, what)));
        run.abort();
    }
}
