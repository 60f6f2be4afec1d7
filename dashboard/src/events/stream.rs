//! The events as a stream for browsers (HTML, section "Server-sent events").

use std::{fmt::Write as _, sync::Arc, time::Duration};

use futures_util::{Stream, stream::unfold};
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};

use super::EventLog;

/// Maximum duration of a stream. The browser connects again, and misses nothing; a server that shuts down
/// waits for it at most so long.
const LONGEST: Duration = Duration::from_secs(20);
/// Interval between signs of life, for proxies.
const ALIVE: Duration = Duration::from_secs(10);
/// Pause before the browser connects again, in ms.
const RETRY: u32 = 1_000;

struct Following {
    log: Arc<EventLog>,
    changes: watch::Receiver<u64>,
    seen: u64,
    ends: Instant,
    has_begun: bool,
}

/// Streams the events after a number.
pub(crate) fn stream(log: &Arc<EventLog>, after: u64) -> impl Stream<Item = String> + Send + use<> {
    let following = Following {
        changes: log.changes(),
        log: Arc::clone(log),
        seen: after,
        ends: Instant::now() + LONGEST,
        has_begun: false,
    };
    unfold(following, |mut following| async move {
        let text = following.next().await?;
        Some((text, following))
    })
}

impl Following {
    /// Returns what is sent next; `None` at the end.
    async fn next(&mut self) -> Option<String> {
        let mut text = String::new();
        if !std::mem::replace(&mut self.has_begun, true) {
            // Writing to a string does not fail.
            let _ = write!(text, "retry: {RETRY}\n\n");
        }
        loop {
            self.changes.mark_unchanged();
            for event in self.log.after(self.seen) {
                self.seen = event.id;
                // JSON has no line breaks.
                let _ = write!(text, "id: {}\ndata: {}\n\n", event.id, event.json());
            }
            if !text.is_empty() {
                return Some(text);
            }
            let left = self.ends.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            if timeout(left.min(ALIVE), self.changes.changed()).await.is_err() {
                text.push_str(": alive\n\n");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use futures_util::StreamExt as _;

    use super::*;
    use crate::events::{EventSource, LoggedEvent};

    fn add(log: &EventLog, text: &str) {
        let at = SystemTime::UNIX_EPOCH;
        let (source, names) = (EventSource::Lock, Vec::new());
        let text = text.into();
        log.add(LoggedEvent { id: 0, at, source, kind: "lost", names, text, is_bad: false });
    }

    #[tokio::test(start_paused = true)]
    async fn stream_continues_where_it_was() {
        let log = Arc::new(EventLog::default());
        add(&log, "first\nline");
        add(&log, "second");
        let first = log.after(0)[0].id;
        let mut events = std::pin::pin!(stream(&log, first));
        let text = events.next().await.unwrap();
        assert!(text.starts_with("retry: 1000\n\nid: "), "{text}");
        assert!(text.contains("\"text\":\"second\"") && !text.contains("first"), "{text}");
        add(&log, "third");
        let text = events.next().await.unwrap();
        assert!(text.contains("\"text\":\"third\"") && !text.contains("retry"), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn quiet_stream_shows_life_and_ends() {
        let log = Arc::new(EventLog::default());
        let begun = Instant::now();
        let texts: Vec<_> = stream(&log, 0).collect().await;
        assert_eq!(texts, ["retry: 1000\n\n", ": alive\n\n", ": alive\n\n"]);
        assert_eq!(begun.elapsed(), LONGEST);
    }
}
