//! The question before an action, with the state that it would change.

use http::StatusCode;
use maud::{Markup, html};

use super::failure::ActionFailure;
use crate::{
    access::Action,
    look::HeldLock,
    pages::{self, Question, Visit, confirmation},
    reply::{Reply, html as page, with_form},
    router::Site,
};

pub(crate) async fn ask(site: &Site, visit: &Visit, action: Action) -> Reply {
    if !visit.viewer.may(action) {
        return pages::denied("You may not do this.");
    }
    let param = param(action);
    let Some(value) = visit.params.exact(param) else {
        let what = "The address does not say what it is about.";
        return pages::problem(StatusCode::NOT_FOUND, "Not found", what);
    };
    let subject = (param, value);
    let question = match action {
        Action::BreakLock => match site.redlock.inspect(value).await {
            Ok(found) => of_holder(subject, visit, found.map(HeldLock::from).as_ref()),
            Err(error) => return ActionFailure::from(error).reply(),
        },
        Action::TriggerJob | Action::PauseJob | Action::ResumeJob => {
            let state = of_job(site, visit, value).await;
            Question { action, subject, holder: None, state, is_possible: true }
        }
        Action::MarkDone | Action::ForgetKey => {
            Question { action, subject, holder: None, state: html! {}, is_possible: true }
        }
    };
    with_form(page(StatusCode::OK, confirmation(visit, &question)))
}

fn of_holder<'a>(
    subject: (&'static str, &'a str),
    visit: &Visit,
    held: Option<&HeldLock>,
) -> Question<'a> {
    let nobody = || html! { p { "Nobody holds it: there is nothing to take away." } };
    let state = held.map_or_else(nobody, |held| pages::holder_facts(held, visit));
    let (holder, is_possible) = (held.map(HeldLock::mark), held.is_some());
    Question { action: Action::BreakLock, subject, holder, state, is_possible }
}

async fn of_job(site: &Site, visit: &Visit, name: &str) -> Markup {
    let look = site.looks.job(&site.redlock, name).await;
    let job = look.as_ref().and_then(|look| look.value.job.as_ref().ok());
    job.map_or_else(|| html! {}, |job| pages::standing(job, visit))
}

/// The parameter that says what an action is about.
pub(super) const fn param(action: Action) -> &'static str {
    match action {
        Action::MarkDone | Action::ForgetKey => "key",
        _ => "name",
    }
}
