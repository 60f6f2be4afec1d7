//! The meaning of a missing vote's reason for the operator.

use std::time::Duration;

use super::{Advice, terms::DiagnosisTerms};
use crate::error::{Prospect, Reason, ServerText, layouts, prospect};

pub(super) fn of_reason(reason: &Reason, terms: &DiagnosisTerms) -> Advice {
    let Prospect { code, todo, .. } = prospect(reason, &terms.prefix);
    let what = match reason {
        Reason::NotConnected(_) if code == "hung" => {
            format!("{reason}: it accepts connections, or drops packets, and does not answer")
        }
        Reason::NotConnected(text) => format!("can't be reached: {}", ServerText(text)),
        Reason::ReadOnly => {
            "the server is a replica, and replicas do not vote, as their data is delayed".into()
        }
        Reason::Probation { remaining } => of_probation(*remaining),
        Reason::OtherLayout { found, ours } => {
            let [found, ours] = layouts(found, ours);
            format!(
                "belongs to another set of nodes. It is enrolled for [{}]; this client is configured for [{ours}]",
                ServerText(found)
            )
        }
        Reason::SameServer { other } => {
            format!("is the same server as {other}: it would vote twice, so neither votes")
        }
        Reason::Evicts { policy } => of_eviction(policy),
        Reason::TimedOut | Reason::Unknown | Reason::Disconnected | Reason::NotAwaited => {
            format!("it did not answer: {reason}")
        }
        _ => reason.to_string(),
    };
    Advice::problem(code, what, todo)
}

fn of_probation(remaining: Duration) -> String {
    if remaining.is_zero() {
        "in probation (it restarted, lost its data, or is new): its time is over; it waits until enough other nodes vote, or until a client stores the end of the probation".into()
    } else {
        format!(
            "in probation for another {remaining:.1?} (it restarted, lost its data, or is new): it votes when all locks that it may have forgotten have expired"
        )
    }
}

fn of_eviction(policy: &str) -> String {
    let policy = ServerText(policy);
    format!("it may evict locks: it has a memory limit, and its maxmemory-policy is {policy}")
}
