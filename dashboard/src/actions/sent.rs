//! Forms that were sent: a second click starts no second action, also without JavaScript.

use std::{
    collections::{VecDeque, hash_map::RandomState},
    hash::BuildHasher as _,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::sync::watch;

use super::{command::Command, outcome::Acted};
use crate::access::Action;

/// Maximum number of forms that are remembered.
const CAPACITY: usize = 256;
/// Maximum length of a token, in bytes.
const MAX_TOKEN_BYTES: usize = 64;
/// The field of the token.
pub(crate) const FIELD: &str = "form";

/// `None` until the action has ended.
pub(super) type Acting = watch::Receiver<Option<Acted>>;

/// The last forms that were sent to this process, with what came of them.
#[derive(Debug, Default)]
pub(crate) struct SentForms(Mutex<VecDeque<(SentForm, Acting)>>);

/// A form of a page that was shown once. Another action, subject or viewer with the same token is another form.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SentForm {
    token: Box<str>,
    action: Action,
    subject: Arc<str>,
    by: Arc<str>,
}

impl SentForm {
    /// Returns `None` without a token: the form is from a program, which does not click twice.
    pub(super) fn of(Command { action, subject, by, form }: &Command) -> Option<Self> {
        let token = form.exact(FIELD).filter(|token| token.len() <= MAX_TOKEN_BYTES)?.into();
        Some(Self { token, action: *action, subject: Arc::clone(subject), by: Arc::clone(by) })
    }
}

impl SentForms {
    /// Returns a token for the form of one page.
    pub(crate) fn token() -> String {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        // Each state has random keys, so that processes have different tokens.
        let part = || RandomState::new().hash_one(number);
        format!("{:016x}{:016x}", part(), part())
    }

    /// Begins an action, or returns the one that was begun with this form.
    pub(super) fn act(&self, form: Option<SentForm>, begin: impl FnOnce() -> Acting) -> Acting {
        let Some(form) = form else { return begin() };
        let mut sent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, acting)) = sent.iter().find(|(other, _)| *other == form) {
            return acting.clone();
        }
        let acting = begin();
        if sent.len() == CAPACITY {
            sent.pop_front();
        }
        sent.push_back((form, acting.clone()));
        debug_assert!(sent.len() <= CAPACITY);
        acting
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{access::Access, query::Params};

    fn form(token: &str, action: Action, subject: &str, by: &str) -> Option<SentForm> {
        let form = Params::parse(format!("name={subject}&{FIELD}={token}").as_bytes());
        SentForm::of(&Command::new(action, &Access::All.by(by), form).unwrap())
    }

    /// Returns whether the form begins an action.
    fn begins(forms: &SentForms, form: Option<SentForm>) -> bool {
        let mut has_begun = false;
        let _ = forms.act(form, || {
            has_begun = true;
            watch::channel(None).1
        });
        has_begun
    }

    #[test]
    fn form_acts_once() {
        let forms = SentForms::default();
        let first = || form("t", Action::TriggerJob, "report", "ann");
        assert!(begins(&forms, first()) && !begins(&forms, first()));
        assert!(begins(&forms, form("t", Action::PauseJob, "report", "ann")));
        assert!(begins(&forms, form("t", Action::TriggerJob, "import", "ann")));
        assert!(begins(&forms, form("t", Action::TriggerJob, "report", "bob")));
        for without in ["", &"x".repeat(65)] {
            let without = || form(without, Action::TriggerJob, "report", "ann");
            assert!(begins(&forms, without()) && begins(&forms, without()));
        }
    }

    #[test]
    fn last_forms_are_remembered() {
        let forms = SentForms::default();
        let nth = |nth: usize| form(&nth.to_string(), Action::TriggerJob, "report", "ann");
        for number in 0..=CAPACITY {
            assert!(begins(&forms, nth(number)));
        }
        assert!(!begins(&forms, nth(1)), "it is remembered");
        assert!(begins(&forms, nth(0)), "it made room");
        assert_eq!(forms.0.lock().unwrap().len(), CAPACITY);
    }

    #[test]
    fn tokens_differ() {
        let tokens: std::collections::HashSet<_> = (0..1_000).map(|_| SentForms::token()).collect();
        assert_eq!(tokens.len(), 1_000);
    }
}
