//! Does what a viewer has confirmed.

use std::{
    error::Error,
    sync::Arc,
    time::{Duration, SystemTime},
};

use http::StatusCode;
use tower_redlock::lock::Released;

use super::{ask::param, failure::ActionFailure, form};
use crate::{
    access::{Action, Viewer},
    events::{EventSource, LoggedEvent},
    look::LockDetails,
    pages::{Question, forbidden, problem},
    query::{Params, link, visible},
    reply::{Reply, see_other},
    router::Site,
};

/// The name of a viewer that has none.
const ANONYMOUS: &str = "a viewer of the dashboard";

pub(crate) async fn perform<B>(site: &Site, viewer: Viewer, action: Action, body: B) -> Reply
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    if !viewer.may(action) {
        return forbidden("You may not do this.");
    }
    let form = match form::read(body).await {
        Ok(form) => form,
        Err(reply) => return reply,
    };
    let param = param(action);
    let Some(subject) = form.exact(param) else {
        return problem(
            StatusCode::BAD_REQUEST,
            "Bad request",
            "The form does not say what it is about.",
        );
    };
    let by = viewer.name().unwrap_or(ANONYMOUS);
    let command = Command { site, by, subject, form: &form };
    match command.run(action).await {
        Ok(what) => {
            record(site, action, subject, by, &what, false);
            site.looks.forget();
            let (page, _) = Question::page(action);
            see_other(&link(page, &[(param, subject), ("done", action.name())]))
        }
        Err(failure) => {
            record(site, action, subject, by, &failure.to_string(), true);
            site.looks.forget();
            failure.reply()
        }
    }
}

/// Logs an action, and shows it among the events.
fn record(site: &Site, action: Action, subject: &str, by: &str, what: &str, is_bad: bool) {
    let action = action.name();
    if is_bad {
        tracing::warn!(action, subject = %visible(subject), by = %visible(by), "an action failed: {}", visible(what));
    } else {
        tracing::info!(action, subject = %visible(subject), by = %visible(by), "{}", visible(what));
    }
    site.log.add(LoggedEvent {
        id: 0,
        at: SystemTime::now(),
        source: EventSource::Viewer,
        kind: action,
        names: vec![Arc::from(subject)],
        text: format!("{subject}, by {by}: {what}"),
        is_bad,
    });
}

struct Command<'a> {
    site: &'a Site,
    by: &'a str,
    subject: &'a str,
    form: &'a Params,
}

impl Command<'_> {
    /// Returns what was done, in words.
    async fn run(&self, action: Action) -> Result<String, ActionFailure> {
        let (redlock, subject) = (&self.site.redlock, self.subject);
        match action {
            Action::BreakLock => self.break_lock().await,
            Action::TriggerJob => {
                let command = redlock.trigger_job(subject).by(self.by);
                let command = match self.form.get("why") {
                    Some(why) => command.why(why),
                    None => command,
                };
                let id = command.await?;
                Ok(format!("run {id} was requested"))
            }
            Action::PauseJob => self.pause().await,
            Action::ResumeJob => {
                redlock.resume_job(subject).by(self.by).await?;
                Ok("the job was resumed".into())
            }
            Action::MarkDone => {
                redlock.once(subject).mark_done().await?;
                Ok("the key was recorded as done".into())
            }
            Action::ForgetKey => {
                let existed = redlock.once(subject).forget().await?;
                Ok(if existed { "the record was removed" } else { "there was no record" }.into())
            }
        }
    }

    /// Takes a lock away from the holder that was shown, and from no later one.
    async fn break_lock(&self) -> Result<String, ActionFailure> {
        let holder = self.site.redlock.inspect(self.subject).await?;
        let Some(holder) = holder else {
            return Err(ActionFailure::Refused("Nobody holds it any more.".into()));
        };
        if self.form.get("holder") != Some(&*LockDetails::holder_mark(&holder)) {
            return Err(ActionFailure::Refused(
                "Another holder has it now than the one that was shown. Look at it again.".into(),
            ));
        }
        let owner = holder.owner.as_deref().unwrap_or("a foreign key");
        match self.site.redlock.revoke(&holder).await {
            Ok(Released::AlreadyLost) => Ok(format!("{owner} had lost it already")),
            Ok(_) => Ok(format!("it was taken away from {owner}, token {}", holder.token)),
            Err(error) => Err(error.into()),
        }
    }

    async fn pause(&self) -> Result<String, ActionFailure> {
        let mut command = self.site.redlock.pause_job(self.subject).by(self.by);
        let mut what = String::from("the job was paused");
        if let Some(why) = self.form.get("why") {
            command = command.why(why);
            what = format!("{what}: {why}");
        }
        if let Some(hours) = self.form.get("hours") {
            let until = hours
                .parse::<f64>()
                .ok()
                .and_then(|hours| Duration::try_from_secs_f64(hours * 3_600.0).ok())
                .filter(|time| !time.is_zero())
                .and_then(|time| SystemTime::now().checked_add(time));
            let Some(until) = until else {
                let what = format!("{hours} is no number of hours.");
                return Err(ActionFailure::Refused(what));
            };
            command = command.until(until);
        }
        command.await?;
        Ok(what)
    }
}
