//! The records on an embedded node.

use std::{collections::HashMap, sync::Arc, time::Duration};

use crate::{
    protocol::{Answer, Nonce, Record},
    time::Timestamp,
};

/// The records that an embedded node stores.
#[derive(Debug, Default)]
pub(super) struct EmbeddedRecords {
    kept: HashMap<Arc<str>, RecordEntry>,
    /// Number of records at which expired ones are removed.
    sweep_at: usize,
}

#[derive(Clone, Debug)]
struct RecordEntry {
    record: Arc<Record>,
    expires: Timestamp,
}

const FIRST_SWEEP: usize = 1_024;

impl EmbeddedRecords {
    pub(super) fn read(&self, name: &str, now: Timestamp) -> Answer {
        let kept = self.kept.get(name).filter(|kept| now < kept.expires);
        Answer::Recorded(
            kept.map(|kept| {
                (Arc::clone(&kept.record), kept.expires.saturating_duration_since(now))
            }),
        )
    }

    pub(super) fn names(&self, now: Timestamp) -> impl Iterator<Item = &Arc<str>> {
        self.kept.iter().filter(move |(_, kept)| now < kept.expires).map(|(name, _)| name)
    }

    /// Stores a record, unless another lease's record of finished work exists.
    pub(super) fn keep(
        &mut self,
        name: &Arc<str>,
        record: &Arc<Record>,
        retain: Duration,
        now: Timestamp,
    ) -> Answer {
        let stands = self.kept.get(name).is_some_and(|kept| {
            now < kept.expires
                && kept.record.is_done
                && kept.record.lease.nonce != record.lease.nonce
        });
        if !stands {
            self.sweep(now);
            let kept = RecordEntry { record: Arc::clone(record), expires: now + retain };
            self.kept.insert(Arc::clone(name), kept);
        }
        self.read(name, now)
    }

    /// Stores a record, unless one of finished work exists.
    pub(super) fn repair(
        &mut self,
        name: &Arc<str>,
        record: &Arc<Record>,
        retain: Duration,
        now: Timestamp,
    ) -> Answer {
        match self.read(name, now) {
            Answer::Recorded(Some((kept, left))) if kept.is_done => {
                Answer::Recorded(Some((kept, left)))
            }
            _ => self.keep(name, record, retain, now),
        }
    }

    pub(super) fn forget(&mut self, name: &str, nonce: Nonce, now: Timestamp) -> Answer {
        let has_nonce = |kept: &RecordEntry| now < kept.expires && kept.record.lease.nonce == nonce;
        let existed = self.kept.get(name).is_some_and(has_nonce);
        if existed {
            self.kept.remove(name);
        }
        Answer::Forgotten(existed)
    }

    #[cfg(feature = "testing")]
    pub(super) fn learn(&mut self, other: &Self) {
        for (name, known) in &other.kept {
            if self.kept.get(name).is_none_or(|kept| known.record.is_done && !kept.record.is_done) {
                self.kept.insert(Arc::clone(name), known.clone());
            }
        }
    }

    fn sweep(&mut self, now: Timestamp) {
        if self.kept.len() >= self.sweep_at {
            self.kept.retain(|_, kept| now < kept.expires);
            self.sweep_at = FIRST_SWEEP.max(2 * self.kept.len());
        }
    }
}
