//! Takes over events from the manager and from schedulers.

use std::{
    sync::{Arc, Weak},
    time::SystemTime,
};

use tokio::{
    runtime::Handle,
    sync::broadcast::error::{RecvError, TryRecvError},
};
use tower_redlock::{
    lock::{LockEvent, LockEventKind},
    scheduler::{JobEvent, JobEventKind, SkipReason},
};

use super::{
    EventLog,
    log::{EventReceiver, EventSource, LoggedEvent},
};

impl EventLog {
    /// Starts to follow what is not followed yet, if there is a runtime. Called by each request: it costs a mutex.
    ///
    /// What was sent so far is taken over at once, in the order of its time.
    pub(crate) fn start(self: &Arc<Self>) {
        let Ok(runtime) = Handle::try_current() else { return };
        let mut sources = self.take_sources();
        if sources.is_empty() {
            return;
        }
        let mut entries = Vec::new();
        for source in &mut sources {
            source.drain(&mut entries);
        }
        entries.sort_by_key(|entry| entry.at);
        for entry in entries {
            self.add(entry);
        }
        for source in sources {
            runtime.spawn(Following { log: Arc::downgrade(self), source: Some(source) }.run());
        }
    }
}

impl EventReceiver {
    /// Takes over what was sent so far.
    fn drain(&mut self, entries: &mut Vec<LoggedEvent>) {
        loop {
            let received = match self {
                Self::Locks(events) => events.try_recv().map(|event| Some(of_lock(event))),
                Self::Jobs(events) => events.try_recv().map(of_job),
            };
            match received {
                Ok(entry) => entries.extend(entry),
                Err(TryRecvError::Lagged(count)) => {
                    entries.push(dropped(format!("{count} earlier events were not recorded")));
                }
                Err(_) => return,
            }
        }
    }

    async fn next(&mut self) -> Result<Option<LoggedEvent>, RecvError> {
        match self {
            Self::Locks(events) => events.recv().await.map(|event| Some(of_lock(event))),
            Self::Jobs(events) => events.recv().await.map(of_job),
        }
    }
}

/// The task that follows one source, until the dashboard or the source is dropped. If its runtime ends, the next
/// request starts another one.
struct Following {
    log: Weak<EventLog>,
    source: Option<EventReceiver>,
}

impl Following {
    async fn run(mut self) {
        while let Some(source) = &mut self.source {
            let received = source.next().await;
            let Some(log) = self.log.upgrade() else { break };
            match received {
                Ok(Some(entry)) => log.add(entry),
                Ok(None) => {}
                Err(RecvError::Lagged(count)) => {
                    log.add(dropped(format!(
                        "{count} events came faster than they could be recorded"
                    )));
                }
                Err(RecvError::Closed) => self.source = None,
            }
        }
        self.source = None;
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        if let (Some(log), Some(source)) = (self.log.upgrade(), self.source.take()) {
            log.give_back(source);
        }
    }
}

fn dropped(text: String) -> LoggedEvent {
    let (at, source) = (SystemTime::now(), EventSource::Log);
    LoggedEvent { id: 0, at, source, kind: "dropped", names: Vec::new(), text, is_bad: false }
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
    Some(LoggedEvent { id: 0, at, source: EventSource::Job, kind, names, text, is_bad: !is_good })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tower_redlock::Redlock;

    use super::*;

    async fn refused(redlock: &Redlock, name: &str) {
        let _held = redlock.lock(name).await.unwrap();
        assert!(redlock.lock(name).wait(Duration::ZERO).await.is_err());
    }

    #[tokio::test]
    async fn events_before_the_first_request_count() {
        let redlock = Redlock::embedded();
        let log = Arc::new(EventLog::default());
        log.follow_locks(redlock.events());
        refused(&redlock, "invoice:1").await;
        log.start();
        let events = log.after(0);
        assert_eq!((events[0].kind, &*events[0].names[0]), ("refused", "invoice:1"));
        assert!(events[0].text.starts_with("invoice:1 was not acquired"), "{}", events[0].text);
    }

    #[tokio::test]
    async fn events_are_followed() {
        let redlock = Redlock::embedded();
        let log = Arc::new(EventLog::default());
        log.follow_locks(redlock.events());
        log.start();
        let mut changes = log.changes();
        refused(&redlock, "invoice:2").await;
        changes.changed().await.unwrap();
        assert_eq!(&*log.after(0)[0].names[0], "invoice:2");
    }

    #[test]
    fn end_of_runtime_loses_no_event() {
        let redlock = Redlock::embedded();
        let log = Arc::new(EventLog::default());
        log.follow_locks(redlock.events());
        let runtime =
            || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime().block_on(async { log.start() });
        let second = runtime();
        second.block_on(refused(&redlock, "invoice:3"));
        assert!(log.after(0).is_empty());
        second.block_on(async { log.start() });
        assert_eq!(&*log.after(0)[0].names[0], "invoice:3");
    }

    #[tokio::test]
    async fn events_that_nobody_took_are_counted() {
        let redlock = Redlock::embedded();
        let log = Arc::new(EventLog::default());
        log.follow_locks(redlock.events());
        for _ in 0..1_030 {
            refused(&redlock, "invoice:4").await;
        }
        log.start();
        let dropped = log.after(0).iter().find(|event| event.kind == "dropped").cloned().unwrap();
        assert_eq!(dropped.text, "6 earlier events were not recorded");
    }
}
