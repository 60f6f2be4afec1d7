//! Requests over several sets: of names in two sets, and while a set is down.

use std::{
    collections::BTreeMap,
    future::{IntoFuture, poll_fn},
    pin::pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use tower_redlock::{
    LockError, Redlock,
    error::{Reason, Vote, VoteOutcome},
};

use super::REQUEST_WAIT;
use crate::{
    oracle::{Oracle, Promise},
    rng::Rng,
    world::{machine::Machines, process::Shared, sets::NEVER_SENT},
};

/// Number of names that each process requests while a set is down.
const NAMES: usize = 12;

/// Requests names of two sets again and again. Each request has to fail when it is first polled.
pub(super) async fn request_two_sets(shared: Arc<Shared>, redlock: Redlock, mut rng: Rng) {
    while !shared.is_stopping() {
        shared.sleep(rng.millis(0, 1_000)).await;
        let mut request = pin!(redlock.lock(NEVER_SENT).wait(shared.ttl()).into_future());
        let polled = poll_fn(|cx| Poll::Ready(request.as_mut().poll(cx))).await;
        match polled {
            Poll::Ready(Err(LockError::InvalidRequest(_))) => {
                shared.oracle.count("two sets refused");
            }
            other => {
                let text = format!("c{}'s request for names of two sets: {other:?}", shared.client);
                shared.oracle.broken(Promise::Sets, text);
            }
        }
    }
}

/// Requests names in each process, and returns which of them failed since their set is down.
pub(in crate::world) async fn names_that_fail(
    machines: &Machines,
    oracle: &Oracle,
) -> BTreeMap<String, bool> {
    let mut waiting = Vec::new();
    for process in machines.members() {
        let Some(redlock) = &process.redlock else { continue };
        for number in 0..NAMES {
            let name = format!("own:{}:{number}", process.shared.client);
            let (sender, receiver) = tokio::sync::oneshot::channel();
            let outcome = acquire_or_miss(redlock.clone(), name.clone());
            process.gate.run(async move {
                // Fails if the run is over.
                let _ = sender.send(outcome.await);
            });
            waiting.push((name, receiver));
        }
    }
    let mut failed = BTreeMap::new();
    for (name, receiver) in waiting {
        match tokio::time::timeout(REQUEST_WAIT + Duration::from_secs(2), receiver).await {
            Ok(Ok(Ok(has_failed))) => {
                failed.insert(name, has_failed);
            }
            Ok(Ok(Err(error))) => {
                oracle.broken(Promise::Sets, format!("{name}, while a set is down: {error}"));
            }
            _ => oracle.broken(Promise::Ends, format!("the request for {name} does not end")),
        }
    }
    failed
}

/// Requests a name until it is granted, or no server of its set is connected; then returns true. Other
/// failures end by themselves: a token may be ahead of a server's clock, for example.
async fn acquire_or_miss(redlock: Redlock, name: String) -> Result<bool, LockError> {
    let until = tokio::time::Instant::now() + REQUEST_WAIT;
    loop {
        let error = match redlock.lock(name.as_str()).await {
            Ok(_) => return Ok(false),
            Err(LockError::NoQuorum { votes }) if votes.iter().all(is_missing) => return Ok(true),
            Err(error) => error,
        };
        if tokio::time::Instant::now() > until {
            return Err(error);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn is_missing(vote: &Vote) -> bool {
    matches!(vote.outcome, VoteOutcome::NotCounted(Reason::NotConnected(_)))
}
