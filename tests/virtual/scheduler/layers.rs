//! A job that is a service, with tower's layers around it.

use std::{
    future::{Ready, ready},
    sync::{Arc, Mutex},
    time::Duration,
};

use tower::{BoxError, ServiceBuilder, retry::Policy, service_fn};
use tower_redlock::{Job, JobContext, Schedule, scheduler::JobEventKind};

use crate::scheduler::fixture::{Fixture, MS, SECOND};

/// A retry policy with this number of further attempts.
#[derive(Clone)]
struct RetryTimes(u32);

impl Policy<JobContext, (), BoxError> for RetryTimes {
    type Future = Ready<()>;

    fn retry(
        &mut self,
        _: &mut JobContext,
        result: &mut Result<(), BoxError>,
    ) -> Option<Ready<()>> {
        self.0 = self.0.checked_sub(u32::from(result.is_err()))?;
        result.is_err().then(|| ready(()))
    }

    fn clone_request(&mut self, request: &JobContext) -> Option<JobContext> {
        Some(request.clone())
    }
}

#[test]
fn retry_layer_keeps_lock_and_token() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let tokens = Arc::new(Mutex::new(Vec::new()));
    let (noted, nodes) = (Arc::clone(&tokens), fixture.nodes.clone());
    let work = service_fn(move |cx: JobContext| {
        let mut tokens = noted.lock().unwrap();
        tokens.push(cx.fencing_token());
        let valid = cx.ensure_valid().is_ok() && nodes.key_counts() == [1; 5];
        let is_third = tokens.len() == 3;
        async move { if is_third && valid { Ok(()) } else { Err(BoxError::from("not yet")) } }
    });
    let service = ServiceBuilder::new().retry(RetryTimes(2)).service(work);
    let mut jobs = host.start([Job::service("j", Schedule::every(10 * SECOND), service)]);
    fixture.advance(10 * SECOND);
    assert_eq!(jobs.event_names(), ["claimed", "started", "finished"]);
    let tokens = tokens.lock().unwrap();
    assert!(tokens.len() == 3 && tokens.iter().all(|token| *token == tokens[0]));
}

#[tokio::test(start_paused = true)]
async fn timeout_layer_fails_the_run() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let work = service_fn(|_: JobContext| std::future::pending::<Result<(), BoxError>>());
    let service = ServiceBuilder::new().timeout(Duration::from_secs(2)).service(work);
    let mut jobs = host.start([Job::service("j", Schedule::every(10 * SECOND), service)]);
    fixture.advance(10 * SECOND);
    assert_eq!(jobs.event_names(), ["claimed", "started"]);
    // The layer's timer is tokio's.
    tokio::time::advance(Duration::from_secs(3)).await;
    fixture.advance(MS);
    let events = jobs.new_events();
    let Some(JobEventKind::Failed { error, .. }) = events.last().map(|event| &event.kind) else {
        panic!("{events:?}")
    };
    assert!(error.contains("timed out"), "{error}");
    assert_eq!(fixture.nodes.key_counts(), [0; 5]);
}
