//! Does what a viewer has confirmed, and records it.

use std::{error::Error, sync::Arc, time::SystemTime};

use http::StatusCode;
use tokio::sync::watch;

use super::{
    ask::param,
    command::Command,
    failure::ActionFailure,
    form,
    sent::{Acting, SentForm},
};
use crate::{
    access::{Action, Viewer},
    events::{EventSource, LoggedEvent},
    pages::{Question, denied, keeping_interval, problem},
    query::{Params, beginning, visible},
    reply::{Reply, see_other},
    router::Site,
};

/// The name of a viewer that has none.
const ANONYMOUS: &str = "a viewer of the dashboard";
/// Maximum length of a name that is stored with a pause or a request, in bytes.
const MAX_NAME_BYTES: usize = 128;

/// What an action has done, as the next page says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    Broken,
    /// The holder had lost it already.
    Gone,
    Requested,
    Paused,
    Resumed,
    Recorded,
    Forgotten,
    /// There was no record.
    NoRecord,
}

impl Done {
    const EACH: [(Self, &'static str); 8] = [
        (Self::Broken, "break"),
        (Self::Gone, "break-gone"),
        (Self::Requested, "trigger"),
        (Self::Paused, "pause"),
        (Self::Resumed, "resume"),
        (Self::Recorded, "done"),
        (Self::Forgotten, "forget"),
        (Self::NoRecord, "forget-none"),
    ];

    fn code(self) -> &'static str {
        Self::EACH.iter().find(|(done, _)| *done == self).map_or("", |(_, code)| code)
    }

    pub(crate) fn of_code(code: &str) -> Option<Self> {
        Self::EACH.iter().find(|(_, other)| *other == code).map(|(done, _)| *done)
    }
}

pub(crate) async fn perform<B>(site: &Site, viewer: Viewer, action: Action, body: B) -> Reply
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    if !viewer.may(action) {
        refused(&viewer, action, "the viewer may not do it");
        return denied("You may not do this.");
    }
    let form = match form::read(body).await {
        Ok(form) => form,
        Err(reply) => return reply,
    };
    let param = param(action);
    let Some(subject) = form.exact(param).map(Arc::<str>::from) else {
        let what = "The form does not say what it is about.";
        return problem(StatusCode::BAD_REQUEST, "Bad request", what);
    };
    let by = name(&viewer);
    let sent = SentForm::of(&form, action, &subject, &by);
    let form = Arc::new(form);
    let begin = || begin(site.clone(), action, Arc::clone(&subject), by, Arc::clone(&form));
    let mut acting = site.sent.act(sent, begin);
    let acted = acting.wait_for(Option::is_some).await.ok().and_then(|acted| acted.clone());
    match acted {
        Some(Ok((done, _))) => {
            let (page, _) = Question::page(action);
            let params = [(param, &*subject), ("done", done.code())];
            see_other(&keeping_interval(page, &params, &form))
        }
        Some(Err(failure)) => failure.reply(),
        None => {
            let what = "The action ended early, and may be in force or not.";
            problem(StatusCode::INTERNAL_SERVER_ERROR, "Broken off", what)
        }
    }
}

/// Starts an action on a task of its own: a viewer that leaves ends neither the action nor its record.
fn begin(site: Site, action: Action, subject: Arc<str>, by: Arc<str>, form: Arc<Params>) -> Acting {
    let (sender, acting) = watch::channel(None);
    tokio::spawn(async move {
        let command = Command { redlock: &site.redlock, by: &by, subject: &subject, form: &form };
        let result = command.run(action).await;
        site.looks.outdate(action, &subject);
        record(&site, action, &subject, &by, &result);
        sender.send_replace(Some(result));
    });
    acting
}

/// The name that is stored and logged.
fn name(viewer: &Viewer) -> Arc<str> {
    let name = visible(viewer.name().unwrap_or_default().trim());
    match beginning(&name, MAX_NAME_BYTES) {
        "" => ANONYMOUS.into(),
        name => name.into(),
    }
}

/// Logs that an action was denied.
pub(crate) fn refused(viewer: &Viewer, action: Action, why: &str) {
    tracing::warn!(action = action.name(), by = %name(viewer), "an action was denied: {why}");
}

/// Logs an action, and shows it among the events.
fn record(
    site: &Site,
    action: Action,
    subject: &Arc<str>,
    by: &str,
    result: &Result<(Done, String), ActionFailure>,
) {
    let (kind, shown) = (action.name(), visible(subject));
    let is_bad = matches!(result, Err(ActionFailure::Unavailable(_)));
    let what = match result {
        Ok((_, what)) => what.clone(),
        Err(failure) => format!("not done: {failure}"),
    };
    if is_bad {
        tracing::warn!(action = kind, subject = %shown, %by, "an action failed: {}", visible(&what));
    } else {
        tracing::info!(action = kind, subject = %shown, %by, "{}", visible(&what));
    }
    site.log.add(LoggedEvent {
        id: 0,
        at: SystemTime::now(),
        source: EventSource::Viewer,
        kind,
        names: vec![Arc::clone(subject)],
        text: format!("{subject}, by {by}: {what}"),
        is_bad,
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Access;

    #[test]
    fn names_fit_what_is_stored() {
        assert_eq!(&*name(&Access::All.by("ann")), "ann");
        assert_eq!(&*name(&Access::All.by(" ")), ANONYMOUS);
        assert_eq!(&*name(&Access::All.into()), ANONYMOUS);
        let long = name(&Access::All.by("é".repeat(100)));
        assert_eq!(*long, *"é".repeat(64));
        assert_eq!(&*name(&Access::All.by("a\nb")), r"a\nb");
    }

    #[test]
    fn codes_lead_back() {
        for (done, code) in Done::EACH {
            assert_eq!((done.code(), Done::of_code(code)), (code, Some(done)));
        }
        assert_eq!(Done::of_code("else"), None);
    }
}
