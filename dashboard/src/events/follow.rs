//! Takes over events from the manager and from schedulers.

use std::sync::{Arc, Weak};

use tokio::sync::broadcast::{Receiver, error::RecvError};
use tower_redlock::{
    lock::{LockEvent, LockEventKind},
    scheduler::{JobEvent, JobEventKind},
};

use super::{
    EventLog,
    log::{EventReceiver, EventSource, LoggedEvent},
};

impl EventLog {
    /// Starts to follow what is not followed yet. Called by each request: it costs a mutex.
    pub(crate) fn start(self: &Arc<Self>) {
        for source in self.take_sources() {
            let log = Arc::downgrade(self);
            match source {
                EventReceiver::Locks(events) => {
                    tokio::spawn(follow(log, events, |event| Some(of_lock(event))));
                }
                EventReceiver::Jobs(events) => {
                    tokio::spawn(follow(log, events, of_job));
                }
            }
        }
    }
}

/// Until the dashboard, or what it follows, has gone.
async fn follow<E: Clone>(
    log: Weak<EventLog>,
    mut events: Receiver<E>,
    entry: fn(E) -> Option<LoggedEvent>,
) {
    loop {
        let received = events.recv().await;
        let Some(log) = log.upgrade() else { return };
        match received {
            Ok(event) => {
                if let Some(entry) = entry(event) {
                    log.add(entry);
                }
            }
            Err(RecvError::Lagged(count)) => log.add(LoggedEvent {
                id: 0,
                at: std::time::SystemTime::now(),
                source: EventSource::Log,
                kind: "dropped",
                names: Vec::new(),
                text: format!(
                    "{count} events came faster than they could be recorded, and are not shown"
                ),
                is_bad: true,
            }),
            Err(RecvError::Closed) => return,
        }
    }
}

fn of_lock(LockEvent { at, kind, .. }: LockEvent) -> LoggedEvent {
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
    LoggedEvent { id: 0, at, source, kind, names, text, is_bad: !is_good }
}

fn of_job(JobEvent { job, tick, trigger, at, kind, .. }: JobEvent) -> Option<LoggedEvent> {
    use JobEventKind as Kind;
    // What others did, and what each run goes through, would hide the rest.
    if matches!(kind, Kind::Claimed { .. } | Kind::Extended { .. }) {
        return None;
    }
    let is_good = matches!(
        kind,
        Kind::Skipped(_)
            | Kind::Started { .. }
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
    Some(LoggedEvent { id: 0, at, source: EventSource::Job, kind, names, text, is_bad: !is_good })
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use tokio::sync::broadcast;

    use super::*;

    #[tokio::test]
    async fn events_before_the_first_request_count() {
        let redlock = tower_redlock::Redlock::embedded();
        let log = Arc::new(EventLog::default());
        log.follow_locks(redlock.events());
        let held = redlock.lock("invoice:1").await.unwrap();
        let refused = redlock.lock("invoice:1").wait(Duration::ZERO).await;
        assert!(refused.is_err());
        drop(held);
        let mut changes = log.changes();
        log.start();
        changes.changed().await.unwrap();
        let events = log.after(0);
        assert_eq!((events[0].kind, &*events[0].names[0]), ("refused", "invoice:1"));
        assert!(events[0].text.starts_with("invoice:1 was not acquired"), "{}", events[0].text);
    }

    #[tokio::test]
    async fn dropped_events_are_counted() {
        let (sender, events) = broadcast::channel(1);
        for number in 0..3 {
            sender.send(number).unwrap();
        }
        drop(sender);
        let log = Arc::new(EventLog::default());
        let entry = |number: i32| {
            let at = SystemTime::UNIX_EPOCH;
            let (source, names) = (EventSource::Lock, Vec::new());
            let text = number.to_string();
            Some(LoggedEvent { id: 0, at, source, kind: "lost", names, text, is_bad: false })
        };
        follow(Arc::downgrade(&log), events, entry).await;
        let texts: Vec<_> = log.after(0).iter().map(|event| event.text.clone()).collect();
        let dropped = "2 events came faster than they could be recorded, and are not shown";
        assert_eq!(texts, [dropped, "2"]);
    }
}
