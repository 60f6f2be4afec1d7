//! The events as a stream for browsers (HTML, section "Server-sent events").

use std::{sync::Arc, time::Duration};

use futures_util::{Stream, stream::unfold};
use serde_json::json;
use tokio::{
    sync::{TryAcquireError, watch},
    time::{Instant, timeout},
};

use super::{
    log::{EventLog, Ring},
    permit::StreamPermit,
};

/// Interval between comments in a quiet stream, which keep proxies from closing it.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// Pause before the browser connects again, in ms.
const RETRY: u32 = 1_000;

struct StreamState {
    log: Arc<EventLog>,
    changes: watch::Receiver<Ring>,
    /// The number of the last event that was sent.
    seen: u64,
    ends: Instant,
    /// Lines that are sent before the next event.
    pending: String,
    _permit: StreamPermit,
}

/// Streams the events after a number. Returns the permit's error if no stream may begin.
pub(crate) fn stream(
    log: &Arc<EventLog>,
    after: u64,
) -> Result<impl Stream<Item = String> + Send + use<>, TryAcquireError> {
    let permit = Arc::clone(&log.streams).try_acquire_owned()?;
    let ends = Instant::now() + log.max_stream_time;
    let state = StreamState {
        changes: log.changes(),
        log: Arc::clone(log),
        seen: after,
        ends,
        pending: format!("retry: {RETRY}\n\n"),
        _permit: StreamPermit::new(permit, ends),
    };
    Ok(unfold(state, |mut state| async move {
        let text = state.next().await?;
        Some((text, state))
    }))
}

impl StreamState {
    /// Returns what is sent next; `None` at the end.
    async fn next(&mut self) -> Option<String> {
        let now = Instant::now();
        if now >= self.ends {
            return None;
        }
        if self.log.streams.is_closed() {
            // Sends the events so far.
            self.ends = now;
        }
        let mut text = std::mem::take(&mut self.pending);
        loop {
            self.changes.mark_unchanged();
            if self.seen > 0 && self.log.lacks_some_after(self.seen) {
                let what =
                    "some events are not shown here: they came faster than this page received them";
                let gap = json!({ "event": "dropped", "at": null, "bad": true, "text": what });
                text.extend(["data: ", &gap.to_string(), "\n\n"]);
            }
            for event in self.log.after(self.seen) {
                debug_assert!(event.id > self.seen, "events are sent in order");
                self.seen = event.id;
                // JSON has no line breaks.
                let (id, data) = (event.id.to_string(), event.json().to_string());
                text.extend(["id: ", &id, "\ndata: ", &data, "\n\n"]);
            }
            if !text.is_empty() {
                return Some(text);
            }
            let left = self.ends.saturating_duration_since(Instant::now());
            if left.is_zero() || self.log.streams.is_closed() {
                return None;
            }
            if timeout(left.min(KEEP_ALIVE_INTERVAL), self.changes.changed()).await.is_err() {
                text.push_str(": alive\n\n");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use futures_util::StreamExt as _;

    use super::{Arc, EventLog, Instant, KEEP_ALIVE_INTERVAL, Stream};
    use crate::events::{EventSource, LoggedEvent, log::MAX_STREAM_TIME};

    fn stream(log: &Arc<EventLog>, after: u64) -> impl Stream<Item = String> + use<> {
        super::stream(log, after).unwrap()
    }

    fn add(log: &EventLog, text: &str) {
        let at = SystemTime::UNIX_EPOCH;
        let (source, names) = (EventSource::Lock, Vec::new());
        let text = text.into();
        log.add(LoggedEvent { at, source, kind: "lost", names, text, is_bad: false });
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
    async fn streams_end_on_request() {
        let log = Arc::new(EventLog::default());
        let begun = Instant::now();
        let mut events = std::pin::pin!(stream(&log, 0));
        assert_eq!(events.next().await.unwrap(), "retry: 1000\n\n");
        let (rest, ()) = tokio::join!(events.next(), async {
            tokio::task::yield_now().await;
            add(&log, "last");
            log.end_streams();
        });
        assert!(rest.unwrap().contains("\"text\":\"last\""), "earlier events are sent");
        assert_eq!(events.next().await, None);
        assert!(begun.elapsed().is_zero());
        assert!(super::stream(&log, 0).is_err(), "no other stream begins");
    }

    #[tokio::test(start_paused = true)]
    async fn gap_is_reported_once() {
        let log = Arc::new(EventLog::default());
        add(&log, "first");
        let first = log.after(0)[0].id;
        for _ in 0..1_100 {
            add(&log, "more");
        }
        let mut events = std::pin::pin!(stream(&log, first));
        let text = events.next().await.unwrap();
        assert!(text.contains("\"event\":\"dropped\""), "{text}");
        assert_eq!(text.matches("more").count(), 1_000);
        add(&log, "last");
        assert!(!events.next().await.unwrap().contains("dropped"));
    }

    #[tokio::test(start_paused = true)]
    async fn stream_with_more_events_than_it_sends_ends() {
        let log = Arc::new(EventLog::default());
        let begun = Instant::now();
        let mut events = std::pin::pin!(stream(&log, 0));

        add(&log, "more");
        while events.next().await.is_some() {
            assert!(begun.elapsed() <= MAX_STREAM_TIME, "the stream ends in time");
            tokio::time::advance(KEEP_ALIVE_INTERVAL).await;
            add(&log, "more");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn quiet_stream_shows_life_and_ends() {
        let log = Arc::new(EventLog::default());
        let begun = Instant::now();
        let texts: Vec<_> = stream(&log, 0).collect().await;
        assert_eq!(texts, ["retry: 1000\n\n", ": alive\n\n", ": alive\n\n"]);
        assert_eq!(begun.elapsed(), MAX_STREAM_TIME);
    }
}
