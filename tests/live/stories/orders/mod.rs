//! Orders over gRPC, on three replicas that are sent many calls at once: one call at a time works
//! on an order, and an order does not change while its lines are streamed.

mod book;
mod client;
mod service;

pub(crate) mod generated {
    #![allow(clippy::all, clippy::pedantic, missing_docs, unreachable_pub, reason = "generated")]
    include!("../../../../examples/proto/orders.v1.rs");
}

use std::sync::{Arc, atomic::Ordering::Relaxed};

use tokio::{net::TcpListener, sync::watch, task::JoinSet};
use tonic::{
    Status, transport,
    transport::{Channel, Endpoint, Server, server::TcpIncoming},
};
use tower::Layer;
use tower_redlock::Redlock;

use self::{
    book::Book,
    client::{Call, Retries, Tracked, is_lost},
    generated::{orders_client::OrdersClient, orders_server::OrdersServer},
    service::Orders,
};
use crate::stories::{
    Failure, busy_machine, judge,
    nodes::{Nodes, pending_releases},
};

/// More than can wait for their locks at once: some are contended.
const CALLS: usize = 240;
const ORDERS: usize = 8;
const ITEMS: [&str; 3] = ["tea", "coffee", "cocoa"];
/// One call of this number is a stream.
const STREAMS: usize = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_and_streams_over_embedded_nodes() {
    let _machine = busy_machine().await;
    play(Nodes::embedded()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_and_streams_over_servers() {
    let _machine = busy_machine().await;
    play(Nodes::servers().await).await.unwrap();
}

async fn play(nodes: Nodes) -> Result<(), Failure> {
    let mut replicas = Vec::new();
    for name in ["a", "b", "c"] {
        replicas.push(nodes.manager(name).await);
    }
    let book = Arc::new(Book::default());
    let stop = watch::Sender::new(false);
    let mut servers = JoinSet::new();
    let mut channels = Vec::new();
    for redlock in &replicas {
        channels.push(serve(redlock, &book, &stop, &mut servers).await?);
    }
    let tally = drive(channels).await;
    // The clients are gone by now, and with them every call.
    stop.send_replace(true);
    while let Some(ended) = servers.join_next().await {
        ended??;
    }
    for redlock in &replicas {
        redlock.shutdown().await;
    }
    tally.judge(&book, &replicas);
    nodes.no_lock_is_left().await;
    Ok(())
}

/// Starts the server of one replica, and connects to it.
async fn serve(
    redlock: &Redlock,
    book: &Arc<Book>,
    stop: &watch::Sender<bool>,
    servers: &mut JoinSet<Result<(), transport::Error>>,
) -> Result<Channel, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let addr = listener.local_addr()?;
    let orders = Orders { redlock: redlock.clone(), book: Arc::clone(book) };
    let service = service::one_at_a_time(redlock).layer(OrdersServer::new(orders));
    let mut stopped = stop.subscribe();
    servers.spawn(Server::builder().add_service(service).serve_with_incoming_shutdown(
        TcpIncoming::from(listener),
        async move {
            let _ = stopped.wait_for(|stop| *stop).await;
        },
    ));
    Ok(Endpoint::from_shared(format!("http://{addr}"))?.connect().await?)
}

/// The outcomes that the clients saw.
#[derive(Default)]
struct Tally {
    placed: u64,
    /// The quantity of the lines that were placed, and of those that may have been.
    quantity: u64,
    possible: u64,
    tracked: u64,
    events: u64,
    /// Streams of an order that changed during the stream.
    unsteady: u64,
    retries: Arc<Retries>,
    unknown: u64,
    failed: u64,
    failure: Option<Status>,
}

enum Answer {
    Placed,
    Tracked(Tracked),
}

struct Outcome {
    quantity: u64,
    answer: Result<Answer, Status>,
}

async fn drive(channels: Vec<Channel>) -> Tally {
    let mut tally = Tally::default();
    let mut running = JoinSet::new();
    for number in 0..CALLS {
        let client = OrdersClient::new(channels[number % channels.len()].clone());
        let order = u32::try_from(number / STREAMS % ORDERS).unwrap_or(0);
        running.spawn(run(Call { number, order, client, retries: Arc::clone(&tally.retries) }));
    }
    drop(channels);
    while let Some(outcome) = running.join_next().await {
        tally.add(outcome.expect("no call panics"));
    }
    tally
}

async fn run(call: Call) -> Outcome {
    let number = call.number;
    if number.is_multiple_of(STREAMS) {
        return Outcome { quantity: 0, answer: call.track().await.map(Answer::Tracked) };
    }
    let quantity = if number.is_multiple_of(2) { 1 } else { 2 };
    let placed = call.place(ITEMS[number % ITEMS.len()], quantity).await;
    Outcome { quantity: quantity.into(), answer: placed.map(|_| Answer::Placed) }
}

impl Tally {
    fn add(&mut self, outcome: Outcome) {
        match outcome.answer {
            Ok(Answer::Placed) => {
                self.placed += 1;
                self.quantity += outcome.quantity;
            }
            Ok(Answer::Tracked(Tracked { events, is_steady })) => {
                self.tracked += 1;
                self.events += u64::from(events);
                self.unsteady += u64::from(!is_steady);
            }
            Err(status) => {
                // Whatever the status, its line may have been written.
                self.possible += outcome.quantity;
                if is_lost(&status) {
                    self.unknown += 1;
                } else {
                    self.failed += 1;
                    self.failure.get_or_insert(status);
                }
            }
        }
    }

    fn judge(&self, book: &Book, replicas: &[Redlock]) {
        let contended = self.retries.contended.load(Relaxed);
        let unavailable = self.retries.unavailable.load(Relaxed);
        let ended = self.placed + self.tracked + self.unknown + self.failed;
        println!(
            "{CALLS} calls: {} placed, {} streams with {} events, {contended} times contended, \
             {unavailable} times unavailable, {} unknown, {} failed: {:?}",
            self.placed, self.tracked, self.events, self.unknown, self.failed, self.failure
        );
        let (overlaps, stale) = (book.overlaps(), book.stale_writes());
        let ((lines, ordered), taken) = (book.ordered(), book.taken());
        let (least, most) = (self.quantity, self.quantity + self.possible);
        let is_right = (least..=most).contains(&ordered) && (ordered..=most).contains(&taken);
        let (all, pending) = (ended == CALLS as u64, pending_releases(replicas));
        judge(&[
            (all && self.failed == 0, format!("calls that failed: {} of {ended}", self.failed)),
            (self.placed > 0, format!("lines placed: {}", self.placed)),
            (self.tracked > 0, format!("streams completed: {}", self.tracked)),
            (overlaps == 0, format!("two calls at one order or item: {overlaps}")),
            (self.unsteady == 0, format!("orders that changed under a stream: {}", self.unsteady)),
            (is_right, format!("the books are right: {lines} lines, {ordered}, {taken} taken")),
            (stale == 0, format!("writes whose token is not above the last: {stale}")),
            (pending == 0, format!("releases pending: {pending}")),
            (contended > 0, format!("calls were contended: {contended} times")),
        ]);
    }
}
