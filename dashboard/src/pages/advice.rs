//! How a set of servers is, and what to do about it.

use maud::{Markup, html};
use tower_redlock::{
    diagnosis::{Advice, Diagnosis, Severity},
    node::NodeState,
};

use super::words::text;

/// Returns whether locks work, in one sentence.
pub(super) fn verdict(diagnosis: &Diagnosis) -> Markup {
    html! {
        p.verdict data-verdict=(diagnosis.verdict()) {
            strong { (diagnosis.verdict()) } ": " (diagnosis.summary()) "."
        }
    }
}

/// Returns the advice of a kind as a list.
pub(super) fn advise(set: &Diagnosis, is_shown: impl Fn(&Advice) -> bool) -> Markup {
    let shown: Vec<_> = set.advice.iter().filter(|advice| is_shown(advice)).collect();
    html! {
        @if !shown.is_empty() { ul.advice { @for advice in shown { (advice_item(advice)) } } }
    }
}

fn advice_item(advice: &Advice) -> Markup {
    let class = if advice.severity == Severity::Problem { "problem" } else { "hint" };
    html! {
        li.(class) data-advice=(advice.code) {
            strong { (advice.severity) } " "
            @if let Some(node) = &advice.node { (text(node)) ": " }
            (text(&advice.what)) ". "
            span.todo { "To do: " (text(&advice.todo)) }
        }
    }
}

/// Returns the name of a state in attributes.
pub(super) const fn state(state: &NodeState) -> &'static str {
    match state {
        NodeState::Voting => "voting",
        NodeState::Connecting => "connecting",
        NodeState::Probation { .. } => "probation",
        NodeState::Refusing { .. } => "refusing",
        NodeState::Down { .. } => "down",
        _ => "unknown",
    }
}
