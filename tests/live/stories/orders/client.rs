//! A client that retries where and when the status says so.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tonic::{Code, Request, Status, transport::Channel};
use tonic_types::StatusExt;

use super::generated::{PlaceRequest, TrackRequest, orders_client::OrdersClient};

const MAX_TRIES: u32 = 30;

/// One call, with its retries.
pub(crate) struct Call {
    pub(crate) number: usize,
    pub(crate) order: u32,
    pub(crate) client: OrdersClient<Channel>,
    pub(crate) retries: Arc<Retries>,
}

/// The number of retries by their reason.
#[derive(Default)]
pub(crate) struct Retries {
    pub(crate) contended: AtomicU64,
    pub(crate) unavailable: AtomicU64,
}

/// The outcome of a stream.
pub(crate) struct Tracked {
    pub(crate) events: u32,
    /// Each event has the same number of lines, and as many events came.
    pub(crate) is_steady: bool,
}

impl Call {
    pub(crate) async fn place(&self, item: &str, quantity: u32) -> Result<u32, Status> {
        let message = PlaceRequest { item: item.to_owned(), quantity };
        let receipt = self.retry(|mut client, order| {
            let request = for_order(order, message.clone());
            async move { client.place(request).await }
        });
        Ok(receipt.await?.into_inner().lines)
    }

    pub(crate) async fn track(&self) -> Result<Tracked, Status> {
        let stream = self.retry(|mut client, order| async move {
            client.track(for_order(order, TrackRequest {})).await
        });
        let mut stream = stream.await?.into_inner();
        let (mut events, mut lines) = (0, None);
        let mut is_steady = true;
        // A stream whose lock was lost ends with an error here.
        while let Some(event) = stream.message().await? {
            events += 1;
            is_steady &= *lines.get_or_insert(event.lines) == event.lines && event.line == events;
        }
        Ok(Tracked { events, is_steady: is_steady && lines.unwrap_or(0) == events })
    }

    /// Retries where the status has a `RetryInfo`: then nothing was done. A call whose lock was lost
    /// (`UNKNOWN`, with `LOCK_LOST` in its details) may have been done, and is not retried.
    async fn retry<T, F: Future<Output = Result<T, Status>>>(
        &self,
        send: impl Fn(OrdersClient<Channel>, u32) -> F,
    ) -> Result<T, Status> {
        let mut tries = 0;
        loop {
            let status = match send(self.client.clone(), self.order).await {
                Ok(answer) => return Ok(answer),
                Err(status) => status,
            };
            tries += 1;
            let delay = status.get_details_retry_info().and_then(|info| info.retry_delay);
            let Some(delay) = delay.filter(|_| tries < MAX_TRIES) else { return Err(status) };
            match status.code() {
                Code::Aborted => self.retries.contended.fetch_add(1, Relaxed),
                _ => self.retries.unavailable.fetch_add(1, Relaxed),
            };
            tokio::time::sleep(delay + self.jitter(delay, tries)).await;
        }
    }

    /// Up to half the delay, different for each call and try.
    fn jitter(&self, delay: Duration, tries: u32) -> Duration {
        let mixed = (self.number as u64 * 31 + u64::from(tries) * 17).wrapping_mul(0x9e37_79b9);
        let part = u32::try_from((mixed >> 8) % 100).unwrap_or(0);
        delay * part / 200
    }
}

fn for_order<T>(order: u32, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("order-id", order.into());
    request
}

/// Whether the call may have been done.
pub(crate) fn is_lost(status: &Status) -> bool {
    status.get_details_error_info().is_some_and(|info| info.reason == "LOCK_LOST")
}
