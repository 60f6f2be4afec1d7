//! A thousand events, delivered up to five times each and forged as well, to two receivers. One of
//! them is killed and restarted. Each event is handled once.
//!
//! "Once" refers to recorded work: an event whose receiver is killed between its effect and the
//! record is handled again. These events are counted separately.

mod effects;
mod forgeries;
mod outcome;
mod receiver;
mod sender;
mod signature;

use std::{
    net::SocketAddr,
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use futures_util::{StreamExt, stream};
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until},
};

pub(crate) use self::receiver::receive;
use self::{
    effects::Effects,
    forgeries::Forgeries,
    outcome::Outcome,
    receiver::TTL,
    sender::{Event, Sender},
    signature::Key,
};
use crate::stories::{
    Failure, MACHINE,
    member::{Member, Part, Role},
    nodes::Nodes,
};
use crate::support::TempDir;

const SECRET: &str = "whsec_dGhpcyBpcyBubyBzZWNyZXQgYXQgYWxs";
const EVENTS: usize = 1_000;
const MAX_COPIES: usize = 5;
/// Number of events by which a copy comes after the first: two at once, others later.
const BEHIND: [usize; MAX_COPIES] = [0, 0, 10, 50, 200];
const AT_ONCE: usize = 32;
/// The number of events that are forged, before they are sent and after that.
const FORGED: usize = 20;
/// Time for which the killed receiver is down.
const AWAY: Duration = Duration::from_millis(500);

/// The second receiver is killed, and started again under another name.
const NAMES: [&str; 2] = ["a1", "b1"];
const NAME_AGAIN: &str = "b2";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handled_once_over_servers() {
    let _machine = MACHINE.lock().await;
    play(Nodes::servers().await).await.unwrap();
}

struct Receiver {
    member: Member,
    addr: SocketAddr,
}

impl Receiver {
    async fn start(nodes: &Nodes, name: &str, effects: &Path) -> Result<Self, Failure> {
        let part = Part::new(Role::Receiver, name, &effects.display());
        let (member, mut lines) = Member::start(nodes, part)?;
        let addr = lines.next().await?.parse()?;
        Ok(Self { member, addr })
    }
}

async fn play(nodes: Nodes) -> Result<(), Failure> {
    let events = events();
    let deliveries = deliveries(&events);
    let dir = TempDir::new();
    let effects = dir.path().join("effects");
    let [one, other] = NAMES.map(|name| Receiver::start(&nodes, name, &effects));
    let (one, other) = tokio::try_join!(one, other)?;
    let sender = Sender::new(Key::new(SECRET)?, [&one, &other]);

    let some: Vec<&Event> = events.iter().step_by(EVENTS / FORGED).collect();
    let mut forgeries = Forgeries::default();
    forgeries::send(&sender, &some, &mut forgeries).await?;
    let (progress, half) = watch::channel(0);
    let mishap = async {
        let mut half = half;
        half.wait_for(|done| *done >= deliveries.len() / 2).await?;
        other.member.kill().await?;
        let killed = Instant::now();
        // The time for which the receiver is down.
        sleep(AWAY).await;
        let again = Receiver::start(&nodes, NAME_AGAIN, &effects).await?;
        sender.replace(1, &again);
        // The locks of the killed receiver have expired after this.
        sleep_until(killed + TTL).await;
        Ok::<_, Failure>(again)
    };
    let deliver = async {
        deliver(&sender, &deliveries, progress).await;
        Ok(())
    };
    let (again, ()) = tokio::try_join!(mishap, deliver)?;
    forgeries::send(&sender, &some, &mut forgeries).await?;
    one.member.stop().await?;
    again.member.stop().await?;
    nodes.no_lock_is_left().await;
    let outcome = Outcome {
        deliveries: deliveries.len(),
        tally: sender.into_tally(),
        forgeries,
        killed: NAMES[1],
        effects: Effects::read(&effects)?,
        events,
    };
    outcome.judge();
    Ok(())
}

fn events() -> Vec<Event> {
    let run = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
    let event = |i| Event { id: format!("evt_{run:x}_{i}"), amount: 1 + i as u64 };
    (0..EVENTS).map(event).collect()
}

/// Each event one to five times, in the order in which the deliveries begin.
fn deliveries(events: &[Event]) -> Vec<&Event> {
    let copies = |(i, event)| {
        let behind = BEHIND.iter().take(1 + i % MAX_COPIES);
        behind.map(move |behind| (i + behind, event))
    };
    let mut deliveries: Vec<_> = events.iter().enumerate().flat_map(copies).collect();
    deliveries.sort_by_key(|(place, _)| *place);
    deliveries.into_iter().map(|(_, event)| event).collect()
}

async fn deliver(sender: &Sender, deliveries: &[&Event], progress: watch::Sender<usize>) {
    let done = stream::iter(deliveries).map(|event| sender.deliver(event));
    let mut done = done.buffer_unordered(AT_ONCE).enumerate();
    while let Some((before, ())) = done.next().await {
        progress.send_replace(before + 1);
    }
}
