//! The settings of a manager on which advice depends.

use std::{sync::Arc, time::Duration};

use crate::{
    lock::{Owed, Redlock},
    protocol::formulas,
};

/// The settings of a manager on which advice depends.
#[derive(Clone, Debug)]
pub(super) struct DiagnosisTerms {
    pub(super) prefix: Arc<str>,
    pub(super) max_ttl: Duration,
    /// Timeout for an answer to a request with the default TTL.
    pub(super) node_timeout: Duration,
    pub(super) restart_guard: bool,
    pub(super) is_embedded: bool,
    /// Number of nodes of each set.
    pub(super) sets: Vec<usize>,
    /// Ends that this process owes to the nodes.
    pub(super) owed: Vec<Owed>,
}

impl DiagnosisTerms {
    pub(super) fn of(redlock: &Redlock) -> Self {
        Self {
            prefix: Arc::clone(redlock.key_prefix()),
            max_ttl: redlock.max_ttl(),
            node_timeout: formulas::node_timeout(redlock.node_timeout(), redlock.default_ttl()),
            restart_guard: redlock.has_restart_guard(),
            is_embedded: redlock.is_embedded(),
            sets: redlock.sets().iter().map(|set| set.nodes().len()).collect(),
            owed: redlock.snapshot().owed,
        }
    }
}
