//! What happens: events are delivered, and half-way one of two receivers is killed and comes back.

use std::{
    path::PathBuf,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use futures_util::{StreamExt, stream};
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until},
};

use crate::{
    Failure,
    effects::{Effect, Effects},
    forgeries::{self, Forgeries},
    nodes::Nodes,
    receiver::TTL,
    secret,
    sender::{Event, Sender, Tally},
    signature::Key,
    site::{Receiver, Site},
};

const EVENTS: usize = 1_000;
const MOST_COPIES: usize = 5;
/// By how many events a copy comes after the first: two at once, others later.
const BEHIND: [usize; MOST_COPIES] = [0, 0, 10, 50, 200];
const AT_ONCE: usize = 32;
/// So many events are forged, before they are sent and after that.
const FORGED: usize = 20;
/// How long the one that was killed is away.
const AWAY: Duration = Duration::from_millis(500);
const PROGRESS_EVERY: usize = 500;

/// The second is killed, and started again under another name.
const NAMES: [&str; 2] = ["a1", "b1"];
const NAME_AGAIN: &str = "b2";

/// All that can be known in the end.
pub(crate) struct Outcome {
    pub(crate) events: Vec<Event>,
    pub(crate) deliveries: usize,
    pub(crate) tally: Tally,
    pub(crate) forgeries: Forgeries,
    pub(crate) killed: &'static str,
    pub(crate) effects: Vec<Effect>,
    /// Locks that are left on the nodes, if that can be told from here.
    pub(crate) locks_left: Option<usize>,
}

pub(crate) async fn play(nodes: Nodes) -> Result<Outcome, Failure> {
    let events = events();
    let deliveries = deliveries(&events);
    let log = Scratch::new();
    let site = Site { nodes, effects: log.0.clone() };
    let [one, other] = NAMES.map(|name| site.start(name));
    let (one, other) = tokio::try_join!(one, other)?;
    let sender = Sender::new(Key::new(&secret())?, [&one, &other]);

    let some: Vec<&Event> = events.iter().step_by(EVENTS / FORGED).collect();
    let mut forgeries = Forgeries::default();
    forgeries::send(&sender, &some, &mut forgeries).await?;
    println!("{} forged requests sent", forgeries.sent);

    let (progress, half) = watch::channel(0);
    let (other, ()) = tokio::try_join!(
        mishap(&site, &sender, other, half, deliveries.len() / 2),
        deliver(&sender, &deliveries, progress),
    )?;
    forgeries::send(&sender, &some, &mut forgeries).await?;
    println!("{} forged requests sent, with those from before", forgeries.sent);
    one.stop().await?;
    other.stop().await?;
    Ok(Outcome {
        deliveries: deliveries.len(),
        tally: sender.into_tally(),
        forgeries,
        killed: NAMES[1],
        effects: Effects::read(&log.0)?,
        locks_left: site.locks_left(),
        events,
    })
}

/// Ids that no earlier run had: the nodes may still know those.
fn events() -> Vec<Event> {
    let run = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
    let event = |i| Event { id: format!("evt_{run:x}_{i}"), amount: 1 + i as u64 };
    (0..EVENTS).map(event).collect()
}

/// Each event one to five times, in the order in which they are begun.
fn deliveries(events: &[Event]) -> Vec<&Event> {
    let copies = |(i, event)| {
        let behind = BEHIND.iter().take(1 + i % MOST_COPIES);
        behind.map(move |behind| (i + behind, event))
    };
    let mut deliveries: Vec<_> = events.iter().enumerate().flat_map(copies).collect();
    deliveries.sort_by_key(|(place, _)| *place);
    deliveries.into_iter().map(|(_, event)| event).collect()
}

async fn deliver(
    sender: &Sender,
    deliveries: &[&Event],
    progress: watch::Sender<usize>,
) -> Result<(), Failure> {
    let (started, all) = (Instant::now(), deliveries.len());
    let mut done = stream::iter(deliveries)
        .map(|event| sender.deliver(event))
        .buffer_unordered(AT_ONCE)
        .enumerate();
    while let Some((before, ())) = done.next().await {
        let count = before + 1;
        progress.send_replace(count);
        if count % PROGRESS_EVERY == 0 || count == all {
            println!("{:5.1} s  {count}/{all} delivered", started.elapsed().as_secs_f64());
        }
    }
    Ok(())
}

/// Kills a receiver when so many deliveries are done. The one that takes its place.
async fn mishap(
    site: &Site,
    sender: &Sender,
    receiver: Receiver,
    mut delivered: watch::Receiver<usize>,
    at: usize,
) -> Result<Receiver, Failure> {
    delivered.wait_for(|count| *count >= at).await?;
    println!("-- receiver {} is killed", receiver.name);
    receiver.kill().await?;
    let killed = Instant::now();
    sleep(AWAY).await;
    let receiver = site.start(NAME_AGAIN).await?;
    sender.replace(1, &receiver);
    println!("-- it is started again, as {}", receiver.name);
    // What the dead held is nobody's after this.
    sleep_until(killed + TTL).await;
    Ok(receiver)
}

/// A file that is gone in the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        let name = format!("tower-redlock-webhooks-{}.log", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
