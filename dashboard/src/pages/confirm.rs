//! The page that asks before an action, with the state that it would change.

use maud::{Markup, html};

use super::{
    layout::Visit, lock::holder_facts, region::trouble, sets::set_line, standing::standing,
};
use crate::{
    access::Action,
    actions::{FIELD, HOLDER, SentForms},
    cache::{HeldLock, JobHistory, JobPage},
    problem::Problem,
    site::Site,
};

/// What the page says about an action.
struct Wording {
    title: &'static str,
    button: &'static str,
    meaning: &'static str,
    fields: &'static [Field],
}

/// A field of the form.
#[derive(Clone, Copy)]
enum Field {
    /// The reason.
    Why,
    /// A number of hours, with its label.
    Hours(&'static str),
}

const fn wording(action: Action) -> Wording {
    match action {
        Action::BreakLock => Wording {
            title: "Take a lock away from its holder?",
            button: "Take it away",
            meaning: "This deletes the keys of this holder and no others. If the holder is dead, the name is free at once. \
                If it is alive, it goes on as if it held the lock: until its next renewal, which takes the lock back \
                if it is still free, or else until its validity ends. Meanwhile two may work at the same time, and only \
                fencing tokens keep them apart. If you are not sure that it is dead, stop it, or wait until its lock \
                expires. A lock that is handed on within its process keeps the token and the time of the \
                first holder: it is taken from its present holder there. A shared lock is taken from all its readers, \
                also from those that acquire it meanwhile.",
            fields: &[],
        },
        Action::TriggerJob => Wording {
            title: "Run a job now?",
            button: "Run it",
            meaning: "A replica of the fleet starts one run within seconds, once no other run is in progress, even while \
                the job is paused. The run does not belong to a tick: the schedule ignores it.",
            fields: &[Field::Why],
        },
        Action::StopJob => Wording {
            title: "Stop the run of a job?",
            button: "Stop it",
            meaning: "The replica that runs the job sees the request within seconds, and asks the work to stop. After the \
                grace period of the job it drops the work; blocking work that does not return can't be stopped. The run \
                counts as stopped, and is not repeated. Of a parallel job, all runs are stopped. The schedule goes on: pause the job to prevent further runs.",
            fields: &[Field::Why],
        },
        Action::PauseJob => Wording {
            title: "Pause a job on the whole fleet?",
            button: "Pause it",
            meaning: "No further tick starts on any replica, also on those that start later, until the job is resumed. A \
                run that is in progress goes on.",
            fields: &[Field::Why, Field::Hours("For how many hours (empty: until it is resumed)")],
        },
        Action::ResumeJob => Wording {
            title: "Resume a job on the whole fleet?",
            button: "Resume it",
            meaning: "A pause on the whole fleet ends. Each replica sees it before its next tick. The latest tick runs if \
                it is still on time; about the others, the job's own rule for missed ticks decides.",
            fields: &[],
        },
        Action::MarkDone => Wording {
            title: "Record a key as done?",
            button: "Record it as done",
            meaning: "The work of this key does not run again while the record is kept. Do it if the work had its effect.",
            fields: &[Field::Hours("Keep the record for how many hours (empty: 96)")],
        },
        Action::ForgetKey => Wording {
            title: "Forget a key?",
            button: "Forget it",
            meaning: "The record is removed from every server: the next request with this key runs the work again. If the \
                work had its effect, that effect happens twice.",
            fields: &[],
        },
    }
}

/// What the page offers.
enum Offer {
    /// Nothing, for this reason.
    Nothing(&'static str),
    /// The action, in any state.
    Always,
    /// The action on the holder with this mark, and on no later one.
    OnHolder(String),
}

pub(crate) async fn ask(site: &Site, visit: &Visit, action: Action) -> Result<Markup, Problem> {
    if !visit.viewer.may(action) {
        return Err(Problem::denied("You may not do this."));
    }
    let Some(name) = visit.params.exact(action.subject().param()) else {
        return Err(Problem::not_found("The address does not say what it is about."));
    };
    let (state, offer) = match action {
        Action::BreakLock => {
            let found = site.redlock.inspect(name).await?.map(HeldLock::from);
            of_holder(found.as_ref(), visit)
        }
        Action::TriggerJob | Action::StopJob | Action::PauseJob | Action::ResumeJob => {
            of_job(site, visit, action, name).await
        }
        Action::MarkDone | Action::ForgetKey => (html! {}, Offer::Always),
    };
    let set = set_line(site, visit, action.subject(), name);
    Ok(confirmation(visit, action, name, &html! { (set) (state) }, &offer))
}

fn of_holder(held: Option<&HeldLock>, visit: &Visit) -> (Markup, Offer) {
    match held {
        Some(held) => (holder_facts(held, visit), Offer::OnHolder(held.shown.mark())),
        None => (html! {}, Offer::Nothing("No process holds it: there is nothing to take away.")),
    }
}

async fn of_job(site: &Site, visit: &Visit, action: Action, name: &str) -> (Markup, Offer) {
    let (state, running) = match site.snapshots.job_now(name).await {
        Ok(JobPage { history: JobHistory { job, .. }, .. }) => (standing(&job, visit), job.running),
        Err(error) => (trouble(Some(&error)), None),
    };
    let offer = match (action, running) {
        (Action::StopJob, Some(running)) => Offer::OnHolder(running.mark()),
        (Action::StopJob, None) => Offer::Nothing("No run is known: there is nothing to stop."),
        _ => Offer::Always,
    };
    (state, offer)
}

fn confirmation(
    visit: &Visit,
    action: Action,
    name: &str,
    state: &Markup,
    offer: &Offer,
) -> Markup {
    let Wording { title, button, meaning, fields } = wording(action);
    let (param, (page, section)) = (action.subject().param(), action.subject().page());
    let content = html! {
        (state)
        @if let Offer::Nothing(reason) = offer { p { (reason) } }
        p { (meaning) }
        form.confirm method="post" action=(action.name()) {
            input type="hidden" name=(param) value=(name);
            (visit.interval_field())
            input type="hidden" name=(FIELD) value=(SentForms::token());
            @if let Offer::OnHolder(mark) = offer { input type="hidden" name=(HOLDER) value=(mark); }
            @for field in fields { @match field {
                Field::Why => p {
                    label for="why" { "Why (shown to all viewers)" } " " input #why name="why" maxlength="64";
                },
                Field::Hours(label) => p {
                    label for="hours" { (label) } " "
                    input #hours name="hours" type="number" min="0.01" step="any";
                },
            } }
            p {
                @if !matches!(offer, Offer::Nothing(_)) { button #confirm type="submit" { (button) } " " }
                a href=(visit.link(page, &[(param, name)])) { "Leave it" }
            }
        }
    };
    visit.subpage(section, title, &action.subject().display_name(name), &content)
}
