//! What stands behind the receiver: it books payments, and is not there each time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::effects::{Effect, Effects};

/// How long it works before it books, and after that.
const WORK: Duration = Duration::from_millis(10);
/// Every so many calls it can't be reached.
const FAILS_EVERY: usize = 20;

#[derive(Clone)]
pub(crate) struct Shop {
    /// Which receiver it is, and since which start.
    pub(crate) receiver: Arc<str>,
    effects: Effects,
    calls: Arc<AtomicUsize>,
}

/// It could not be reached; nothing was booked. Or so it seems, as anywhere.
pub(crate) struct Unavailable;

impl Shop {
    pub(crate) fn new(receiver: &str, effects: Effects) -> Self {
        Self { receiver: receiver.into(), effects, calls: Arc::default() }
    }

    pub(crate) async fn book(&self, effect: Effect) -> Result<(), Unavailable> {
        tokio::time::sleep(WORK).await;
        if self.calls.fetch_add(1, Ordering::Relaxed) % FAILS_EVERY == FAILS_EVERY - 1 {
            return Err(Unavailable);
        }
        self.effects.append(&effect).map_err(|_| Unavailable)?;
        // A crash from here on, until the nodes keep that it is done, and it happens again.
        tokio::time::sleep(WORK).await;
        Ok(())
    }
}
