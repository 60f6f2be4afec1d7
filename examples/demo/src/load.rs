//! A light load while there are no other requests: a few clients that make withdrawals, so that
//! there are locks to look at.

use std::time::Duration;

use futures_util::future::join_all;

use crate::{
    Demo,
    drive::{client, send},
    ledger::ACCOUNTS,
};

/// The number of clients. Each sends about one request a second.
const CLIENTS: usize = 4;

/// Sends requests until it is dropped.
pub(crate) async fn run(demo: &Demo) {
    let http = client();
    let clients = (0..CLIENTS).map(|number| {
        let http = http.clone();
        async move {
            for turn in 0.. {
                let account = (number + 2 * turn) % ACCOUNTS + 1;
                // Each client has its own pace, so that they sometimes meet.
                let step = 5 * turn + 3 * number;
                let (thinking, pause) = (200 + 370 * step % 1_000, 100 + 230 * step % 500);
                let url =
                    format!("{}/accounts/{account}/withdraw?thinking_ms={thinking}", demo.url);
                // The server counts the responses, and the view shows them.
                let _ = send(&http, &url).await;
                tokio::time::sleep(Duration::from_millis(pause as u64)).await;
            }
        }
    });
    join_all(clients).await;
}
