//! Waits for conditions without assuming how long they take.

use std::thread;
use std::time::{Duration, Instant};

/// Time after which any wait of the tests counts as hanging. The outcome of a test does not depend
/// on it.
pub const HANG_GUARD: Duration = Duration::from_secs(10);

/// Time after which a condition or a piece of work that [`eventually`] or `in_time` awaits counts as hanging.
/// Longer than [`HANG_GUARD`], which some tests pass on as a setting: a busy machine may take it.
pub const CONDITION_TIMEOUT: Duration = Duration::from_secs(30);

const STEP: Duration = Duration::from_millis(5);

/// Blocks until `condition` holds; panics with `what` if it still doesn't after [`CONDITION_TIMEOUT`].
///
/// Blocks the thread: tasks of a current-thread runtime make no progress meanwhile, so async tests
/// that wait for their own tasks use [`eventually_async`].
#[track_caller]
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        let is_in_time = started.elapsed() < CONDITION_TIMEOUT;
        assert!(is_in_time, "still waiting after {CONDITION_TIMEOUT:?}: {what}");
        thread::sleep(STEP);
    }
}

/// Waits until `condition` holds; panics with `what` if it still doesn't after [`CONDITION_TIMEOUT`].
///
/// The guard counts real time, also where tokio's clock is paused.
pub async fn eventually_async(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let started = Instant::now();
    while !condition().await {
        let is_in_time = started.elapsed() < CONDITION_TIMEOUT;
        assert!(is_in_time, "still waiting after {CONDITION_TIMEOUT:?}: {what}");
        tokio::time::sleep(STEP).await;
    }
}
