//! The oracle of exclusion and fencing: the holders of each name in a schedule.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use tower_redlock::{Lock, LockContext};

use crate::activity::locked;

/// The holders of each name.
#[derive(Clone, Debug, Default)]
pub struct Holders {
    names: Arc<Mutex<HashMap<String, NameHistory>>>,
}

#[derive(Debug, Default)]
struct NameHistory {
    holders: Vec<LockContext>,
    last_token: u64,
    /// The greatest token of an exclusive lock.
    last_exclusive: u64,
}

impl Holders {
    /// Checks that a lock that was just granted has no other valid holder, and that its token is
    /// above all tokens granted before. A shared lock is compared with exclusive ones only, and
    /// may have the token of the last one.
    ///
    /// # Panics
    ///
    /// If the check fails.
    pub fn granted(&self, lock: &Lock) {
        let (context, token) = (lock.context(), lock.fencing_token().get());
        for name in lock.resource().names() {
            let is_shared = lock.is_shared();
            let (others, last) = self.known(name, is_shared);
            // If it is still valid, the known grants were before it.
            if is_valid(&context) {
                let is_greater = if is_shared { token >= last } else { token > last };
                assert!(is_greater, "{name}: token {token} after {last}");
                for other in others.iter().filter(|other| !(is_shared && other.is_shared())) {
                    let theirs = is_valid(other);
                    // Read last: each was valid when the other one was read.
                    assert!(!(theirs && is_valid(&context)), "{name} has two holders");
                }
            }
            let mut names = locked(&self.names);
            let history = names.entry(name.to_owned()).or_default();
            history.last_token = history.last_token.max(token);
            if !is_shared {
                history.last_exclusive = history.last_exclusive.max(token);
            }
            history.holders.push(context.clone());
        }
    }

    /// Returns the holders so far, and the token that the next one has to reach.
    fn known(&self, name: &str, is_shared: bool) -> (Vec<LockContext>, u64) {
        let names = locked(&self.names);
        let Some(name) = names.get(name) else { return (Vec::new(), 0) };
        let last = if is_shared { name.last_exclusive } else { name.last_token };
        (name.holders.clone(), last)
    }

    /// Removes the holders, which keep parts of their managers.
    pub(crate) fn forget(&self) {
        let names = std::mem::take(&mut *locked(&self.names));
        drop(names);
    }
}

fn is_valid(context: &LockContext) -> bool {
    context.ensure_valid().is_ok()
}
