//! The last events, numbered.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use serde_json::{Value, json};
use tokio::sync::{Semaphore, broadcast, watch};
use tower_redlock::{lock::LockEvent, scheduler::JobEvent};

use crate::{look::unix_millis, pages::stamp, query::visible};

/// Maximum number of events that are kept.
const CAPACITY: usize = 1_000;
/// Maximum number of streams at a time.
const MAX_STREAMS: usize = 256;

/// The last events of this process, and the actions of its viewers.
#[derive(Debug)]
pub(crate) struct EventLog {
    ring: Mutex<Ring>,
    /// The number of the latest event.
    latest: watch::Sender<u64>,
    /// A permit for each stream.
    pub(crate) streams: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct Ring {
    /// The number of the latest event.
    last: u64,
    events: VecDeque<Arc<LoggedEvent>>,
    /// The greatest number of an event that was evicted.
    evicted: u64,
    /// What has to be followed from the first request on, as that has a runtime.
    sources: Vec<EventReceiver>,
}

#[derive(Debug)]
pub(super) enum EventReceiver {
    Locks(broadcast::Receiver<LockEvent>),
    Jobs(broadcast::Receiver<JobEvent>),
}

impl Ring {
    /// Makes room: routine events must not displace those that matter.
    fn evict(&mut self) {
        let routine = self.events.iter().filter(|event| event.is_routine()).count();
        let oldest = self.events.iter().position(|event| event.is_routine());
        let evicted = oldest.filter(|_| 2 * routine > self.events.len()).unwrap_or(0);
        if let Some(event) = self.events.remove(evicted) {
            self.evicted = self.evicted.max(event.id);
        }
    }
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoggedEvent {
    /// Greater than those before it, also those of an earlier process on this host.
    pub(crate) id: u64,
    pub(crate) at: SystemTime,
    pub(crate) source: EventSource,
    pub(crate) kind: &'static str,
    /// The names of locks, jobs, keys or nodes that it is about.
    pub(crate) names: Vec<Arc<str>>,
    pub(crate) text: String,
    /// Somebody may have to do something.
    pub(crate) is_bad: bool,
}

/// Where an event comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventSource {
    Lock,
    Node,
    Job,
    Viewer,
    Log,
}

impl EventSource {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Node => "node",
            Self::Job => "job",
            Self::Viewer => "viewer",
            Self::Log => "log",
        }
    }
}

impl LoggedEvent {
    const fn is_routine(&self) -> bool {
        !self.is_bad && matches!(self.source, EventSource::Lock | EventSource::Job)
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "id": self.id,
            "at_unix_ms": unix_millis(self.at),
            "at": stamp(self.at),
            "source": self.source.name(),
            "event": self.kind,
            "names": self.names,
            "text": visible(&self.text),
            "bad": self.is_bad,
        })
    }
}

impl Default for EventLog {
    fn default() -> Self {
        let micros = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let last = u64::try_from(micros.as_micros()).unwrap_or_default();
        Self {
            ring: Mutex::new(Ring { last, ..Ring::default() }),
            latest: watch::Sender::new(last),
            streams: Arc::new(Semaphore::new(MAX_STREAMS)),
        }
    }
}

impl EventLog {
    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn follow_locks(&self, events: broadcast::Receiver<LockEvent>) {
        self.ring().sources.push(EventReceiver::Locks(events));
    }

    pub(crate) fn follow_jobs(&self, events: broadcast::Receiver<JobEvent>) {
        self.ring().sources.push(EventReceiver::Jobs(events));
    }

    /// Whether events after a number are not there any more.
    pub(super) fn lacks_some_after(&self, id: u64) -> bool {
        self.ring().evicted > id
    }

    /// Adds what has to be followed again.
    pub(super) fn give_back(&self, source: EventReceiver) {
        self.ring().sources.push(source);
    }

    /// What is to be followed, once.
    pub(super) fn take_sources(&self) -> Vec<EventReceiver> {
        std::mem::take(&mut self.ring().sources)
    }

    /// Adds an event; its number is given here.
    pub(crate) fn add(&self, mut event: LoggedEvent) {
        let mut ring = self.ring();
        let id = ring.last + 1;
        ring.last = id;
        event.id = id;
        if ring.events.len() == CAPACITY {
            ring.evict();
        }
        ring.events.push_back(Arc::new(event));
        drop(ring);
        self.latest.send_if_modified(|latest| {
            let is_later = *latest < id;
            *latest = id.max(*latest);
            is_later
        });
    }

    /// The events after a number, the oldest first.
    pub(crate) fn after(&self, id: u64) -> Vec<Arc<LoggedEvent>> {
        let ring = self.ring();
        let from = ring.events.partition_point(|event| event.id <= id);
        ring.events.range(from..).cloned().collect()
    }

    /// The latest events about a name, the newest first.
    pub(crate) fn about(
        &self,
        source: EventSource,
        name: &str,
        at_most: usize,
    ) -> Vec<Arc<LoggedEvent>> {
        let is_about = |event: &&Arc<LoggedEvent>| {
            (event.source == source || event.source == EventSource::Viewer)
                && event.names.iter().any(|other| &**other == name)
        };
        self.ring().events.iter().rev().filter(is_about).take(at_most).cloned().collect()
    }

    /// Ends all streams; there will be none from then on.
    pub(crate) fn end_streams(&self) {
        self.streams.close();
        // They wait for this.
        self.latest.send_modify(|_| {});
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.latest.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(text: &str) -> LoggedEvent {
        LoggedEvent {
            id: 0,
            at: SystemTime::UNIX_EPOCH,
            source: EventSource::Lock,
            kind: "lost",
            names: vec!["invoice".into()],
            text: text.into(),
            is_bad: true,
        }
    }

    #[test]
    fn last_thousand_are_kept() {
        let log = EventLog::default();
        for number in 0..=CAPACITY {
            log.add(event(&number.to_string()));
        }
        let all = log.after(0);
        assert_eq!((all.len(), &*all[0].text), (CAPACITY, "1"));
        assert!(all.is_sorted_by(|a, b| a.id + 1 == b.id));
        let rest = log.after(all[CAPACITY - 3].id);
        assert_eq!(rest.iter().map(|event| &*event.text).collect::<Vec<_>>(), ["999", "1000"]);
    }

    #[test]
    fn routine_does_not_displace_losses() {
        let log = EventLog::default();
        log.add(event("lost"));
        let first = log.after(0)[0].id;
        for _ in 0..2 * CAPACITY {
            log.add(LoggedEvent { is_bad: false, ..event("refused") });
        }
        let all = log.after(0);
        assert_eq!((all.len(), &*all[0].text), (CAPACITY, "lost"));
        assert!(log.lacks_some_after(first) && !log.lacks_some_after(all[1].id));
    }

    #[test]
    fn events_are_found_by_name() {
        let log = EventLog::default();
        log.add(event("first"));
        log.add(LoggedEvent { names: vec!["other".into()], ..event("second") });
        log.add(LoggedEvent { source: EventSource::Job, ..event("third") });
        log.add(LoggedEvent { source: EventSource::Viewer, ..event("fourth") });
        let about = log.about(EventSource::Lock, "invoice", 10);
        assert_eq!(about.iter().map(|event| &*event.text).collect::<Vec<_>>(), ["fourth", "first"]);
        assert_eq!(log.about(EventSource::Lock, "invoice", 1).len(), 1);
    }
}
