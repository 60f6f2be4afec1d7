//! The question before an action, with the state that it would change.

use http::StatusCode;
use maud::{Markup, html};
use tower_redlock::lock::Holder;

use super::failure::ActionFailure;
use crate::{
    access::Action,
    look::LockDetails,
    pages::{self, Question, Visit, confirmation},
    reply::{Reply, html as page, with_form},
    router::Site,
};

pub(crate) async fn ask(site: &Site, visit: &Visit, action: Action) -> Reply {
    if !visit.viewer.may(action) {
        return pages::forbidden("You may not do this.");
    }
    let param = param(action);
    let Some(value) = visit.params.exact(param) else {
        return pages::problem(
            StatusCode::NOT_FOUND,
            "Not found",
            "The address does not say what it is about.",
        );
    };
    let (mut holder, mut state) = (None, html! {});
    if action == Action::BreakLock {
        match site.redlock.inspect(value).await {
            Ok(Some(found)) => (holder, state) = shown(visit, &found),
            Ok(None) => state = html! { p { "Nobody holds it: there is nothing to take away." } },
            Err(error) => return ActionFailure::from(error).reply(),
        }
    }
    let question = Question { action, subject: (param, value), holder, state };
    with_form(page(StatusCode::OK, confirmation(visit, &question)))
}

fn shown(visit: &Visit, holder: &Holder) -> (Option<String>, Markup) {
    (Some(LockDetails::holder_mark(holder)), pages::held(holder, visit))
}

/// The parameter that says what an action is about.
pub(super) const fn param(action: Action) -> &'static str {
    match action {
        Action::MarkDone | Action::ForgetKey => "key",
        _ => "name",
    }
}
