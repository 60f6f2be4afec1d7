//! The page that asks before an action.

use maud::{Markup, html};

use super::Visit;
use crate::{
    access::Action,
    actions::{FIELD, SentForms},
};

/// The question before an action.
pub(crate) struct Question<'a> {
    pub(crate) action: Action,
    /// The parameter that names what it is about, and its value.
    pub(crate) subject: (&'static str, &'a str),
    /// Tells the holder that is shown from a later one.
    pub(crate) holder: Option<String>,
    /// What is known of the subject.
    pub(crate) state: Markup,
    /// There is something to do.
    pub(crate) is_possible: bool,
}

impl Question<'_> {
    const fn title(&self) -> &'static str {
        match self.action {
            Action::BreakLock => "Take a lock away from its holder?",
            Action::TriggerJob => "Run a job now?",
            Action::PauseJob => "Pause a job on the whole fleet?",
            Action::ResumeJob => "Resume a job on the whole fleet?",
            Action::MarkDone => "Record a key as done?",
            Action::ForgetKey => "Forget a key?",
        }
    }

    const fn meaning(&self) -> &'static str {
        match self.action {
            Action::BreakLock => {
                "This deletes the keys of this holder and no others. If the holder is dead, the name is free at once. \
                 If it is alive, it goes on as if it held the lock: until its next renewal, which takes the lock back \
                 if it is still free, or else until its validity ends. Meanwhile two may work at the same time, and only \
                 fencing tokens keep them apart. If you are not sure that it is dead, stop it, or wait until its lock \
                 expires. A lock that is handed on within its process keeps the token and the time of the \
                 first holder: it is taken from whoever has it there now."
            }
            Action::TriggerJob => {
                "A replica of the fleet starts one run within seconds, once no other run is in progress, even while the \
                 job is paused. The run is no tick: the schedule ignores it."
            }
            Action::PauseJob => {
                "No further tick starts on any replica, also on those that start later, until the job is resumed. A run \
                 that is in progress goes on."
            }
            Action::ResumeJob => {
                "A pause on the whole fleet ends. Each replica sees it before its next tick. The latest tick runs if it is still on time; about the \
                 others, the job's own rule for missed ticks decides."
            }
            Action::MarkDone => {
                "The work of this key does not run again, as long as the record is kept. Do it if the work had its \
                 effect."
            }
            Action::ForgetKey => {
                "The record is removed from every server: the next request with this key runs the work again. If the \
                 work had its effect, that effect happens twice."
            }
        }
    }

    /// What a time means.
    const fn hours(&self) -> Option<&'static str> {
        match self.action {
            Action::PauseJob => Some("For how many hours (empty: until it is resumed)"),
            Action::MarkDone => Some("Keep the record for how many hours (empty: 96)"),
            _ => None,
        }
    }

    const fn button(&self) -> &'static str {
        match self.action {
            Action::BreakLock => "Take it away",
            Action::TriggerJob => "Run it",
            Action::PauseJob => "Pause it",
            Action::ResumeJob => "Resume it",
            Action::MarkDone => "Record it as done",
            Action::ForgetKey => "Forget it",
        }
    }

    /// Where the subject is shown.
    pub(crate) const fn page(action: Action) -> (&'static str, &'static str) {
        match action {
            Action::BreakLock => ("lock", "locks"),
            Action::TriggerJob | Action::PauseJob | Action::ResumeJob => ("job", "jobs"),
            Action::MarkDone | Action::ForgetKey => ("once", "once"),
        }
    }
}

pub(crate) fn confirmation(visit: &Visit, question: &Question<'_>) -> Markup {
    let (param, value) = question.subject;
    let (page, section) = Question::page(question.action);
    let content = html! {
        (question.state)
        p { (question.meaning()) }
        form.confirm method="post" action=(question.action.name()) {
            input type="hidden" name=(param) value=(value);
            (visit.interval_field())
            input type="hidden" name=(FIELD) value=(SentForms::token());
            @if let Some(holder) = &question.holder { input type="hidden" name="holder" value=(holder); }
            @if matches!(question.action, Action::PauseJob | Action::TriggerJob) {
                p { label for="why" { "Why (shown to everybody)" } " " input #why name="why" maxlength="64"; }
            }
            @if let Some(label) = question.hours() {
                p {
                    label for="hours" { (label) } " "
                    input #hours name="hours" type="number" min="0.01" step="any";
                }
            }
            p {
                @if question.is_possible { button #confirm type="submit" { (question.button()) } " " }
                a href=(visit.link(page, &[(param, value)])) { "Leave it" }
            }
        }
    };
    visit.subpage(section, question.title(), value, &content)
}
