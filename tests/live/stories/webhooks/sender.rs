//! The sender: repeats the delivery of an event until it is answered with a 2xx.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    body::Body,
    http::{Request, StatusCode},
};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use tokio::time::{Instant, sleep, timeout};

use super::{
    Receiver,
    signature::{ID, Key, SIGNATURE, TIMESTAMP, now},
};
use crate::stories::Failure;

const FIRST_BACKOFF: Duration = Duration::from_millis(10);
const LAST_BACKOFF: Duration = Duration::from_millis(200);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
const GIVE_UP_AFTER: Duration = Duration::from_secs(15);

pub(crate) struct Event {
    pub(crate) id: String,
    pub(crate) amount: u64,
}

impl Event {
    pub(crate) fn body(&self) -> String {
        format!(r#"{{"type":"payment.made","amount":{}}}"#, self.amount)
    }
}

pub(crate) struct Sender {
    client: Client<HttpConnector, Body>,
    pub(crate) key: Key,
    /// Requests go to them in turn.
    targets: Mutex<[Target; 2]>,
    turn: AtomicUsize,
    tally: Mutex<Tally>,
}

/// The last known address of a receiver.
#[derive(Clone)]
struct Target {
    name: String,
    uri: String,
}

/// The answers that the sender saw.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) requests: usize,
    pub(crate) delivered: usize,
    pub(crate) given_up: usize,
    /// Answers other than 2xx.
    pub(crate) refusals: BTreeMap<StatusCode, usize>,
    pub(crate) not_connected: usize,
    /// Receivers and events of requests without an answer.
    pub(crate) cut: BTreeSet<(String, String)>,
    pub(crate) duplicates: usize,
    /// The number of answers for each event that say handled, not duplicate.
    pub(crate) handled: BTreeMap<String, usize>,
}

enum Answer {
    Handled,
    Duplicate,
    Refused(StatusCode),
    NotConnected,
    Cut,
}

impl Sender {
    pub(crate) fn new(key: Key, receivers: [&Receiver; 2]) -> Self {
        let client =
            Client::builder(TokioExecutor::new()).retry_canceled_requests(false).build_http();
        let targets = Mutex::new(receivers.map(Target::new));
        Self { client, key, targets, turn: AtomicUsize::new(0), tally: Mutex::default() }
    }

    /// Sends requests to this receiver from now on, in place of an earlier one.
    pub(crate) fn replace(&self, place: usize, receiver: &Receiver) {
        locked(&self.targets)[place] = Target::new(receiver);
    }

    /// Sends the event until it is accepted.
    pub(crate) async fn deliver(&self, event: &Event) {
        let give_up = Instant::now() + GIVE_UP_AFTER;
        let mut backoff = FIRST_BACKOFF;
        while Instant::now() < give_up {
            let target = self.next_target();
            let answer = self.try_once(&target, event).await;
            if locked(&self.tally).add(&target, event, &answer) {
                return;
            }
            sleep(backoff).await;
            backoff = (2 * backoff).min(LAST_BACKOFF);
        }
        locked(&self.tally).given_up += 1;
    }

    async fn try_once(&self, target: &Target, event: &Event) -> Answer {
        let (body, timestamp) = (event.body(), now());
        let signature = self.key.sign(&event.id, timestamp, body.as_bytes());
        let timestamp = timestamp.to_string();
        let headers = [(ID, &event.id[..]), (TIMESTAMP, &timestamp), (SIGNATURE, &signature)];
        match timeout(ANSWER_TIMEOUT, self.post(target, &headers, body)).await {
            Ok(Ok((status, true))) if status.is_success() => Answer::Duplicate,
            Ok(Ok((status, _))) if status.is_success() => Answer::Handled,
            Ok(Ok((status, _))) => Answer::Refused(status),
            Ok(Err(error)) if is_connect(&error) => Answer::NotConnected,
            Ok(Err(_)) | Err(_) => Answer::Cut,
        }
    }

    /// Sends a request once, and returns the status of its answer.
    pub(crate) async fn send(
        &self,
        headers: &[(&str, &str)],
        body: String,
    ) -> Result<StatusCode, Failure> {
        let target = self.next_target();
        Ok(timeout(ANSWER_TIMEOUT, self.post(&target, headers, body)).await??.0)
    }

    /// Returns the status, and whether it is the answer to a duplicate.
    async fn post(
        &self,
        target: &Target,
        headers: &[(&str, &str)],
        body: String,
    ) -> Result<(StatusCode, bool), Failure> {
        let request = Request::post(&target.uri).header("content-type", "application/json");
        let request =
            headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let response = self.client.request(request.body(Body::from(body))?).await?;
        let is_duplicate = response.headers().get("once").is_some_and(|once| once == "duplicate");
        Ok((response.status(), is_duplicate))
    }

    fn next_target(&self) -> Target {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let targets = locked(&self.targets);
        targets[turn % targets.len()].clone()
    }

    pub(crate) fn into_tally(self) -> Tally {
        self.tally.into_inner().unwrap()
    }
}

impl Tally {
    /// Returns whether the event is accepted.
    fn add(&mut self, target: &Target, event: &Event, answer: &Answer) -> bool {
        self.requests += 1;
        match answer {
            Answer::Handled => *self.handled.entry(event.id.clone()).or_default() += 1,
            Answer::Duplicate => self.duplicates += 1,
            Answer::Refused(status) => *self.refusals.entry(*status).or_default() += 1,
            Answer::NotConnected => self.not_connected += 1,
            Answer::Cut => {
                self.cut.insert((target.name.clone(), event.id.clone()));
            }
        }
        let is_accepted = matches!(answer, Answer::Handled | Answer::Duplicate);
        self.delivered += usize::from(is_accepted);
        is_accepted
    }
}

impl Target {
    fn new(receiver: &Receiver) -> Self {
        let Receiver { member, addr } = receiver;
        Self { name: member.name.clone(), uri: format!("http://{addr}/webhooks") }
    }
}

/// Whether nothing was sent.
fn is_connect(error: &Failure) -> bool {
    error
        .downcast_ref::<hyper_util::client::legacy::Error>()
        .is_some_and(hyper_util::client::legacy::Error::is_connect)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap()
}
