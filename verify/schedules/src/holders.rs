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
}

impl Holders {
    /// Checks that a lock that was just granted has no other valid holder, and that its token is
    /// above all tokens granted before.
    ///
    /// # Panics
    ///
    /// If the check fails.
    pub fn granted(&self, lock: &Lock) {
        let (context, token) = (lock.context(), lock.fencing_token().get());
        for name in lock.resource().names() {
            let (others, last) = self.known(name);
            // If it is still valid, the known grants were before it.
            if is_valid(&context) {
                assert!(token > last, "{name}: token {token} after {last}");
                for other in others {
                    let theirs = is_valid(&other);
                    // Read last: each was valid when the other one was read.
                    assert!(!(theirs && is_valid(&context)), "{name} has two holders");
                }
            }
            let mut names = locked(&self.names);
            let history = names.entry(name.to_owned()).or_default();
            history.last_token = history.last_token.max(token);
            history.holders.push(context.clone());
        }
    }

    fn known(&self, name: &str) -> (Vec<LockContext>, u64) {
        let names = locked(&self.names);
        names.get(name).map_or((Vec::new(), 0), |name| (name.holders.clone(), name.last_token))
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
