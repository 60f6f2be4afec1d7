//! Carries out what a viewer has confirmed, and records it.

use std::{sync::Arc, time::SystemTime};

use http::StatusCode;
use tokio::sync::watch;

use super::{
    command::Command,
    outcome::Acted,
    sent::{Acting, SentForm},
};
use crate::{
    events::{EventLog, EventSource, LoggedEvent},
    problem::Problem,
    site::Site,
    text::visible,
};

/// Does what a form confirms, or waits for what the same form has begun.
pub(crate) async fn perform(site: &Site, command: &Arc<Command>) -> Acted {
    let begin = || begin(site.clone(), Arc::clone(command));
    let mut acting = site.sent.act(SentForm::of(command), begin);
    let acted = acting.wait_for(Option::is_some).await.ok().and_then(|acted| acted.clone());
    let lost = "The action ended early, and may be in force or not.";
    let lost = || Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "Broken off", lost));
    acted.unwrap_or_else(lost)
}

/// Starts an action on a task of its own: a viewer that leaves ends neither the action nor its record.
fn begin(site: Site, command: Arc<Command>) -> Acting {
    let (sender, acting) = watch::channel(None);
    tokio::spawn(async move {
        let acted = command.run(&site.redlock).await;
        site.snapshots.outdate(command.action.subject(), &command.subject);
        record(&site.log, &command, &acted);
        let unfinished = sender.send_replace(Some(acted));
        debug_assert!(unfinished.is_none(), "an action ends once");
    });
    acting
}

/// Logs an action, and shows it among the events.
fn record(log: &EventLog, Command { action, subject, by, .. }: &Command, acted: &Acted) {
    let (kind, shown) = (action.name(), visible(subject));
    let (what, is_bad) = match acted {
        Ok((_, what)) => (what.clone(), false),
        Err(Problem { what, status, .. }) => {
            (format!("not done: {what}"), *status == StatusCode::SERVICE_UNAVAILABLE)
        }
    };
    if is_bad {
        tracing::warn!(action = kind, subject = %shown, %by, "an action failed: {}", visible(&what));
    } else {
        tracing::info!(action = kind, subject = %shown, %by, "{}", visible(&what));
    }
    log.add(LoggedEvent {
        at: SystemTime::now(),
        source: EventSource::Viewer,
        kind,
        names: vec![Arc::clone(subject)],
        text: format!("{}, by {by}: {what}", action.subject().display_name(subject)),
        is_bad,
    });
}
