//! Drives the service: many calls at once over real connections, and a tally of the answers.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use tokio::{
    task::JoinSet,
    time::{Interval, interval},
};
use tonic::{Status, transport::Channel};

use crate::{
    client::{Call, Retries, Tracked, is_lost},
    orders::orders_client::OrdersClient,
};

pub(crate) const ORDERS: usize = 8;
const ITEMS: [&str; 3] = ["tea", "coffee", "cocoa"];
/// One call in so many is a stream.
const STREAMS: usize = 4;

/// What the clients saw.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) calls: usize,
    pub(crate) placed: u64,
    /// How much was in the lines that were placed, and in those that may have been.
    pub(crate) quantity: u64,
    pub(crate) perhaps: u64,
    pub(crate) tracked: u64,
    pub(crate) events: u64,
    /// Streams of an order that changed meanwhile.
    pub(crate) unsteady: u64,
    pub(crate) retries: Arc<Retries>,
    pub(crate) unknown: u64,
    pub(crate) failed: u64,
    pub(crate) failure: Option<Status>,
    pub(crate) took: Duration,
}

enum Answer {
    Placed,
    Tracked(Tracked),
}

struct Outcome {
    quantity: u64,
    answer: Result<Answer, Status>,
}

pub(crate) async fn drive(channels: Vec<Channel>, calls: usize) -> Tally {
    let started = Instant::now();
    let mut tally = Tally { calls, ..Tally::default() };
    let mut running = JoinSet::new();
    for number in 0..calls {
        let client = OrdersClient::new(channels[number % channels.len()].clone());
        let order = u32::try_from(number / STREAMS % ORDERS).unwrap_or(0);
        running.spawn(run(Call { number, order, client, retries: Arc::clone(&tally.retries) }));
    }
    drop(channels);
    let mut ticks = interval(Duration::from_millis(250));
    while let Some(outcome) = next(&mut running, &mut ticks, &tally).await {
        tally.add(outcome);
    }
    tally.took = started.elapsed();
    tally.show();
    tally
}

/// Shows the progress while it waits.
async fn next(
    running: &mut JoinSet<Outcome>,
    ticks: &mut Interval,
    tally: &Tally,
) -> Option<Outcome> {
    loop {
        tokio::select! {
            ended = running.join_next() => return ended.map(|ended| ended.expect("no call panics")),
            _ = ticks.tick() => tally.show(),
        }
    }
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
                // Whatever ended it, its line may have been written.
                self.perhaps += outcome.quantity;
                if is_lost(&status) {
                    self.unknown += 1;
                } else {
                    self.failed += 1;
                    self.failure.get_or_insert(status);
                }
            }
        }
    }

    pub(crate) fn ended(&self) -> u64 {
        self.placed + self.tracked + self.unknown + self.failed
    }

    fn show(&self) {
        println!(
            "{:>4} of {} calls: {} placed, {} streams, {} times contended and retried",
            self.ended(),
            self.calls,
            self.placed,
            self.tracked,
            self.retries.contended.load(Relaxed)
        );
    }
}
