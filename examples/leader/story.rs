//! Who is killed when, and what is seen of it.

use std::{collections::BTreeMap, time::Duration};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::{
    Failure,
    candidate::{self, TTL, Tick},
    company::{Candidate, Heard},
    nodes::Nodes,
};

const CANDIDATES: usize = 3;
/// For so long each leader works before it is killed: so it has renewed its lock.
const AT_WORK: Duration = Duration::from_millis(1_500);
/// A company in which nobody leads for so long hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// What was seen.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) ticks: Vec<Tick>,
    /// From each kill to the first step of the next leader.
    pub(crate) takeovers: Vec<Duration>,
    /// From the order to leave to the first step of the next leader.
    pub(crate) handover: Duration,
}

struct Stage {
    nodes: Nodes,
    company: BTreeMap<usize, Candidate>,
    started: usize,
    tell: UnboundedSender<Heard>,
    heard: UnboundedReceiver<Heard>,
    tally: Tally,
}

pub(crate) async fn play(rounds: usize, nodes: Nodes) -> Result<Tally, Failure> {
    let (tell, heard) = unbounded_channel();
    let (company, tally) = (BTreeMap::new(), Tally::default());
    let mut stage = Stage { nodes, company, started: 0, tell, heard, tally };
    for _ in 0..CANDIDATES {
        stage.start()?;
    }
    let (mut leader, mut tick) = stage.next_leader(0).await?;
    stage.introduce(leader, tick);
    for round in 1..=rounds {
        stage.watch(AT_WORK).await;
        let killed = stage.take(leader)?;
        println!("round {round}: {} is killed while it leads", killed.name);
        let since = candidate::now();
        killed.kill().await?;
        stage.start()?;
        (leader, tick) = stage.next_leader(tick.token).await?;
        let took = Duration::from_nanos(tick.at.saturating_sub(since));
        stage.introduce(leader, tick);
        println!("  after {took:.2?}, of a TTL of {TTL:?}");
        stage.tally.takeovers.push(took);
    }
    stage.watch(AT_WORK).await;
    let leaving = stage.take(leader)?;
    println!("{} is told to leave", leaving.name);
    let since = candidate::now();
    leaving.leave().await?;
    (leader, tick) = stage.next_leader(tick.token).await?;
    stage.introduce(leader, tick);
    stage.tally.handover = Duration::from_nanos(tick.at.saturating_sub(since));
    println!("  after {:.2?}", stage.tally.handover);
    stage.close().await
}

impl Stage {
    fn start(&mut self) -> Result<(), Failure> {
        self.started += 1;
        let candidate = Candidate::start(self.started, &self.nodes, self.tell.clone())?;
        self.company.insert(self.started, candidate);
        Ok(())
    }

    fn take(&mut self, number: usize) -> Result<Candidate, Failure> {
        Ok(self.company.remove(&number).ok_or("one that was killed leads")?)
    }

    fn introduce(&self, leader: usize, tick: Tick) {
        let name = self.company.get(&leader).map_or("nobody", |candidate| &candidate.name);
        println!("  {name} leads, token {}", tick.token);
    }

    /// Waits for a leader of a later term.
    async fn next_leader(&mut self, after: u64) -> Result<Heard, Failure> {
        let next = async {
            while let Some((number, tick)) = self.heard.recv().await {
                self.tally.ticks.push(tick);
                if tick.token > after {
                    return Ok((number, tick));
                }
            }
            Err("all candidates are gone")
        };
        Ok(tokio::time::timeout(PATIENCE, next).await.map_err(|_| "nobody leads any more")??)
    }

    async fn watch(&mut self, time: Duration) {
        let watching = async {
            while let Some((_, tick)) = self.heard.recv().await {
                self.tally.ticks.push(tick);
            }
        };
        let _ = tokio::time::timeout(time, watching).await;
    }

    async fn close(mut self) -> Result<Tally, Failure> {
        for candidate in std::mem::take(&mut self.company).into_values() {
            candidate.leave().await?;
        }
        drop(self.tell);
        while let Some((_, tick)) = self.heard.recv().await {
            self.tally.ticks.push(tick);
        }
        Ok(self.tally)
    }
}
