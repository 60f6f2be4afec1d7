//! The permit of a stream of events.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::{
    sync::OwnedSemaphorePermit,
    task::AbortHandle,
    time::{Instant, sleep_until},
};

/// A permit that returns at the end of its stream, or when the stream is dropped. A stream whose client receives
/// nothing is not polled, and so does not notice its end.
#[derive(Debug)]
pub(super) struct StreamPermit {
    permit: SharedPermit,
    timer: AbortHandle,
}

type SharedPermit = Arc<Mutex<Option<OwnedSemaphorePermit>>>;

impl StreamPermit {
    /// Returns one that ends at this time.
    ///
    /// # Panics
    ///
    /// Outside of a Tokio runtime with a timer.
    pub(super) fn new(permit: OwnedSemaphorePermit, ends: Instant) -> Self {
        let permit = SharedPermit::new(Mutex::new(Some(permit)));
        let of_timer = Arc::clone(&permit);
        let timer = tokio::spawn(async move {
            sleep_until(ends).await;
            release(&of_timer);
        });
        Self { permit, timer: timer.abort_handle() }
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        self.timer.abort();
        release(&self.permit);
    }
}

fn release(permit: &SharedPermit) {
    drop(permit.lock().unwrap_or_else(PoisonError::into_inner).take());
}
