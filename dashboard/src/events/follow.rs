//! Records the events of the manager and of schedulers.

use std::{
    future::ready,
    sync::{Arc, Weak},
    time::SystemTime,
};

use futures_util::{FutureExt as _, StreamExt as _, stream::unfold};
use tokio::{
    runtime::Handle,
    sync::broadcast::{Receiver, error::RecvError},
    task::unconstrained,
};
use tower_redlock::{
    lock::{LockEvent, LockEventKind},
    scheduler::{JobEvent, JobEventKind, SkipReason},
};

use super::log::{EventLog, EventSource, EventStream, LoggedEvent};
use crate::recent::Recent;

impl EventLog {
    pub(crate) fn follow_locks(&self, events: Receiver<LockEvent>, recent: &Arc<Recent>) {
        // The task that follows the events must not keep the manager that sends them.
        let recent = Arc::downgrade(recent);
        let record = move |event| {
            if let Some(recent) = recent.upgrade() {
                recent.note(&event);
            }
            Some(of_lock_event(event))
        };
        self.sources().push(recorded(events, record));
    }

    pub(crate) fn follow_jobs(&self, events: Receiver<JobEvent>) {
        self.sources().push(recorded(events, of_job_event));
    }

    /// Starts to follow the sources that no task follows yet, if there is a runtime. Each request calls it: it
    /// costs a mutex.
    ///
    /// The events that were sent so far are recorded at once, in the order of their times.
    pub(crate) fn start(self: &Arc<Self>) {
        let Ok(runtime) = Handle::try_current() else { return };
        let mut sources = std::mem::take(&mut *self.sources());
        let mut events = Vec::new();
        for source in &mut sources {
            // Without the budget of the task, which would end the loop early.
            while let Some(Some(event)) = unconstrained(source.next()).now_or_never() {
                events.push(event);
            }
        }
        events.sort_by_key(|event| event.at);
        for event in events {
            self.add(event);
        }
        for source in sources {
            runtime.spawn(record(Arc::downgrade(self), source));
        }
    }
}

/// Returns the events of a source that are recorded, and how many were missed.
fn recorded<E: Clone + Send + 'static>(
    events: Receiver<E>,
    record: impl FnMut(E) -> Option<LoggedEvent> + Send + 'static,
) -> EventStream {
    let received = unfold((events, record), |(mut events, mut record)| async move {
        let event = match events.recv().await {
            Ok(event) => record(event),
            Err(RecvError::Lagged(count)) => Some(dropped(count)),
            Err(RecvError::Closed) => return None,
        };
        Some((event, (events, record)))
    });
    received.filter_map(ready).fuse().boxed()
}

/// Records the events of one source, until the source ends, or an event comes after the dashboard was dropped.
async fn record(log: Weak<EventLog>, mut source: EventStream) {
    while let Some(event) = source.next().await {
        let Some(log) = log.upgrade() else { return };
        log.add(event);
    }
}

fn dropped(count: u64) -> LoggedEvent {
    let (at, source) = (SystemTime::now(), EventSource::Log);
    let text = format!("{count} earlier events were not recorded");
    LoggedEvent { at, source, kind: "dropped", names: Vec::new(), text, is_bad: false }
}

fn of_lock_event(LockEvent { at, kind, .. }: LockEvent) -> LoggedEvent {
    let (source, names) = match (&kind, kind.resource()) {
        (LockEventKind::NodeOut { node, .. } | LockEventKind::NodeBack { node }, _) => {
            (EventSource::Node, vec![Arc::clone(node)])
        }
        (_, Some(resource)) => (EventSource::Lock, resource.names().map(Arc::from).collect()),
        (_, None) => (EventSource::Lock, Vec::new()),
    };
    let is_good = matches!(
        kind,
        LockEventKind::Granted { .. }
            | LockEventKind::NodeBack { .. }
            | LockEventKind::Refused { .. }
            | LockEventKind::FenceRaised { .. }
    );
    let (text, kind) = (kind.to_string(), kind.name());
    LoggedEvent { at, source, kind, names, text, is_bad: !is_good }
}

fn of_job_event(JobEvent { job, tick, trigger, at, kind, .. }: JobEvent) -> Option<LoggedEvent> {
    use JobEventKind as Kind;
    // Claims of other replicas and the steps of each run would hide the rest.
    if matches!(kind, Kind::Claimed { .. } | Kind::Extended { .. }) {
        return None;
    }
    let is_good = matches!(
        kind,
        Kind::Skipped(
            SkipReason::AlreadyStarted { .. }
                | SkipReason::Overlap
                | SkipReason::Held { .. }
                | SkipReason::NotLeading
        ) | Kind::Started { .. }
            | Kind::Stopping
            | Kind::Finished { .. }
            | Kind::Ended { .. }
    );
    let of = match trigger {
        Some(trigger) => format!("requested run {trigger}"),
        None => format!("tick {tick}"),
    };
    let text = format!("{job}, {of}: {kind}");
    let (kind, names) = (kind.name(), vec![job]);
    Some(LoggedEvent { at, source: EventSource::Job, kind, names, text, is_bad: !is_good })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tower_redlock::Redlock;

    use super::*;

    fn follow(redlock: &Redlock) -> Arc<EventLog> {
        let log = Arc::new(EventLog::default());
        log.follow_locks(redlock.events(), &Arc::new(Recent::new(redlock.clone())));
        log
    }

    async fn refused(redlock: &Redlock, name: &str) {
        let _held = redlock.lock(name).await.unwrap();
        assert!(redlock.lock(name).wait(Duration::ZERO).await.is_err());
    }

    #[tokio::test]
    async fn events_before_the_first_request_count() {
        let redlock = Redlock::embedded();
        let log = follow(&redlock);
        refused(&redlock, "invoice:1").await;
        log.start();
        let events = log.after(0);
        assert_eq!((events[0].event.kind, &*events[0].event.names[0]), ("refused", "invoice:1"));
        assert!(
            events[0].event.text.starts_with("invoice:1 was not acquired"),
            "{}",
            events[0].event.text
        );
    }

    #[tokio::test]
    async fn events_are_followed() {
        let redlock = Redlock::embedded();
        let log = follow(&redlock);
        log.start();
        let mut changes = log.changes();
        refused(&redlock, "invoice:2").await;
        changes.changed().await.unwrap();
        assert_eq!(&*log.after(0)[0].event.names[0], "invoice:2");
    }

    #[tokio::test]
    async fn missed_events_are_counted() {
        let redlock = Redlock::embedded();
        let log = follow(&redlock);
        for _ in 0..1_030 {
            refused(&redlock, "invoice:4").await;
        }
        log.start();
        let dropped =
            log.after(0).iter().find(|event| event.event.kind == "dropped").cloned().unwrap();
        assert_eq!(dropped.event.text, "6 earlier events were not recorded");
    }
}
