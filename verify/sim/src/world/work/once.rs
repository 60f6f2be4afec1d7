//! Work that runs once per key.

use std::{sync::Arc, time::Duration};

use tower_redlock::{Redlock, once::Once};

use super::{Checked, requests::belief};
use crate::{rng::Rng, world::process::Shared};

/// Number of keys in use at a time.
const KEYS: u64 = 3;
/// Retention of records, longer than any run.
const RETAIN: Duration = Duration::from_secs(3_600);

pub(super) async fn once_each(shared: Arc<Shared>, redlock: Redlock, mut rng: Rng) {
    let (client, oracle) = (shared.client, shared.oracle.clone());
    while !shared.is_stopping() {
        shared.sleep(rng.millis(0, 150)).await;
        // Few keys at a time, so that clients request work that is done or in progress.
        let key = format!("k{}", oracle.now() / 1_300_000 + rng.below(KEYS));
        let wait = Duration::from_millis([0, 200, 1_000][rng.index(3)]);
        let most = [3, 40, shared.scenario.ttl * 2][rng.index(3)];
        let time = rng.millis(0, most);
        let fails = rng.chance(10);
        let result = redlock
            .once(key.as_str())
            .wait(wait)
            .retain(RETAIN)
            .run(|context| {
                let guard = oracle.once_started(client, &key, belief(&context));
                let work = async move {
                    tokio::time::sleep(time).await;
                    drop(guard);
                    if fails { Err("fails") } else { Ok(()) }
                };
                Checked::new(context, &oracle, work)
            })
            .await;
        match result {
            Ok(Once::Ran(())) => oracle.once_done(client, &key),
            Ok(Once::AlreadyDone { .. }) => oracle.count("already done"),
            Ok(other) => oracle.event(format!("c{client} {key}: {other:?}")),
            Err(error) => oracle.event(format!("c{client} {key}: {error:?}")),
        }
    }
}
