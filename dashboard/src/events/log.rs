//! The last events, numbered.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use futures_util::stream::BoxStream;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};

use crate::text::{stamp, unix_millis, visible};

/// Maximum number of events that are kept.
const CAPACITY: usize = 1_000;
/// Maximum number of streams at a time.
const MAX_STREAMS: usize = 256;
/// Maximum duration of a stream. The browser connects again, and misses nothing. A server that shuts down without
/// [`Dashboard::end_streams`](crate::Dashboard::end_streams) waits for the end of the stream.
pub(super) const MAX_STREAM_TIME: Duration = Duration::from_secs(20);

/// The events of one source, as they are recorded.
pub(super) type EventStream = BoxStream<'static, LoggedEvent>;

/// The last events of this process, and the actions of its viewers.
pub(crate) struct EventLog {
    ring: watch::Sender<Ring>,
    /// Sources that no task follows yet: the first request starts the tasks, as it has a runtime.
    sources: Mutex<Vec<EventStream>>,
    /// A permit for each stream; closed once streams have ended for good.
    pub(super) streams: Arc<Semaphore>,
    /// [`MAX_STREAM_TIME`], or less in tests.
    pub(super) max_stream_time: Duration,
}

#[derive(Debug, Default)]
pub(super) struct Ring {
    /// The number of the latest event.
    last: u64,
    /// The events that are kept, with ascending numbers.
    events: VecDeque<Arc<NumberedEvent>>,
    /// The greatest number of an event that was evicted.
    evicted: u64,
}

impl Ring {
    fn add(&mut self, event: LoggedEvent) {
        self.last += 1;
        let id = self.last;
        if self.events.len() == CAPACITY {
            self.evict();
        }
        self.events.push_back(Arc::new(NumberedEvent { id, event }));
        debug_assert!(self.events.len() <= CAPACITY && self.evicted < id);
    }

    /// Makes room: routine events must not displace those that matter.
    fn evict(&mut self) {
        let is_routine = |numbered: &Arc<NumberedEvent>| numbered.event.is_routine();
        let routine = self.events.iter().filter(|event| is_routine(event)).count();
        let oldest = self.events.iter().position(is_routine);
        let evicted = oldest.filter(|_| 2 * routine > self.events.len()).unwrap_or(0);
        if let Some(event) = self.events.remove(evicted) {
            self.evicted = self.evicted.max(event.id);
        }
    }
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoggedEvent {
    pub(crate) at: SystemTime,
    pub(crate) source: EventSource,
    pub(crate) kind: &'static str,
    /// The names of locks, jobs, keys or nodes that it is about.
    pub(crate) names: Vec<Arc<str>>,
    pub(crate) text: String,
    /// An operator may have to act.
    pub(crate) is_bad: bool,
}

/// An event in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NumberedEvent {
    /// Greater than the numbers of all events before it, also of an earlier process on this host.
    pub(crate) id: u64,
    pub(crate) event: LoggedEvent,
}

/// The origin of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum EventSource {
    Lock,
    Node,
    Job,
    Viewer,
    Log,
}

impl LoggedEvent {
    const fn is_routine(&self) -> bool {
        !self.is_bad && matches!(self.source, EventSource::Lock | EventSource::Job)
    }
}

impl NumberedEvent {
    pub(crate) fn json(&self) -> Value {
        let LoggedEvent { at, source, kind, names, text, is_bad } = &self.event;
        json!({
            "id": self.id,
            "at_unix_ms": unix_millis(*at),
            "at": stamp(*at),
            "source": source,
            "event": kind,
            "names": names,
            "text": visible(text),
            "bad": is_bad,
        })
    }
}

impl Default for EventLog {
    fn default() -> Self {
        let micros = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let last = u64::try_from(micros.as_micros()).unwrap_or_default();
        Self {
            ring: watch::Sender::new(Ring { last, ..Ring::default() }),
            sources: Mutex::default(),
            streams: Arc::new(Semaphore::new(MAX_STREAMS)),
            max_stream_time: MAX_STREAM_TIME,
        }
    }
}

impl EventLog {
    /// Returns a log whose streams end after this time.
    #[cfg(test)]
    pub(crate) fn with_stream_time(max_stream_time: Duration) -> Self {
        Self { max_stream_time, ..Self::default() }
    }

    /// Waits until no stream has a permit.
    #[cfg(test)]
    pub(crate) async fn streams_have_ended(&self) {
        let all = MAX_STREAMS.try_into().unwrap();
        drop(self.streams.acquire_many(all).await.expect("streams may begin"));
    }

    /// Returns whether events after a number were evicted.
    pub(super) fn lacks_some_after(&self, id: u64) -> bool {
        self.ring.borrow().evicted > id
    }

    /// Returns the sources that no task follows.
    pub(super) fn sources(&self) -> MutexGuard<'_, Vec<EventStream>> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event.
    pub(crate) fn add(&self, event: LoggedEvent) {
        self.ring.send_modify(|ring| ring.add(event));
    }

    /// Returns the events after a number, the oldest first.
    pub(crate) fn after(&self, id: u64) -> Vec<Arc<NumberedEvent>> {
        let ring = self.ring.borrow();
        let from = ring.events.partition_point(|event| event.id <= id);
        ring.events.range(from..).cloned().collect()
    }

    /// Returns the latest events about a name, the newest first.
    pub(crate) fn about(
        &self,
        source: EventSource,
        name: &str,
        at_most: usize,
    ) -> Vec<Arc<NumberedEvent>> {
        let is_about = |numbered: &&Arc<NumberedEvent>| {
            let event = &numbered.event;
            (event.source == source || event.source == EventSource::Viewer)
                && event.names.iter().any(|other| &**other == name)
        };
        self.ring.borrow().events.iter().rev().filter(is_about).take(at_most).cloned().collect()
    }

    /// Ends all streams, and refuses new ones from now on.
    pub(crate) fn end_streams(&self) {
        self.streams.close();
        // Wakes the streams.
        self.ring.send_modify(|_| {});
    }

    /// Returns a receiver that reports each event.
    pub(super) fn changes(&self) -> watch::Receiver<Ring> {
        self.ring.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(text: &str) -> LoggedEvent {
        LoggedEvent {
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
        assert_eq!((all.len(), &*all[0].event.text), (CAPACITY, "1"));
        assert!(all.is_sorted_by(|a, b| a.id + 1 == b.id));
        let rest = log.after(all[CAPACITY - 3].id);
        assert_eq!(
            rest.iter().map(|event| &*event.event.text).collect::<Vec<_>>(),
            ["999", "1000"]
        );
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
        assert_eq!((all.len(), &*all[0].event.text), (CAPACITY, "lost"));
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
        assert_eq!(
            about.iter().map(|event| &*event.event.text).collect::<Vec<_>>(),
            ["fourth", "first"]
        );
        assert_eq!(log.about(EventSource::Lock, "invoice", 1).len(), 1);
    }
}
