//! Three candidates, of which one leads. The leader is killed, and another one takes over; at the
//! end the leader resigns, and another one follows at once.

use std::{collections::BTreeMap, fmt, pin::pin, str::FromStr, time::Duration};

use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    time::timeout,
};
use tower_redlock::{
    RedlockBuilder, Term,
    time::{Clock, SystemClock},
};

use crate::stories::{
    Failure, judge,
    member::{HANG_GUARD, Io, Member, Part, Role},
    nodes::Nodes,
    quiet_machine,
};

const CANDIDATES: usize = 3;
const ROUNDS: usize = 3;
const TTL: Duration = Duration::from_secs(2);
/// Time for which each leader works before it is killed; it has renewed its lock by then.
const AT_WORK: Duration = Duration::from_millis(1_500);
/// Pause between two steps of a leader's work.
const STEP: Duration = Duration::from_millis(5);
/// Time that a busy machine may add to a takeover.
const SLACK: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn takeovers_over_embedded_nodes() {
    let _machine = quiet_machine().await;
    play(Nodes::embedded()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn takeovers_over_servers() {
    let _machine = quiet_machine().await;
    play(Nodes::servers().await).await.unwrap();
}

/// A step of a leader's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Step {
    /// Time in ns since the machine was started, which is the same for all processes.
    at: u64,
    token: u64,
}

fn now() -> u64 {
    SystemClock::new().now().as_nanos()
}

/// A candidate: reports each step of its work while it leads.
pub(crate) async fn stand(builder: RedlockBuilder, io: Io) -> Result<(), Failure> {
    let redlock = builder.build()?;
    let leader = redlock.leader("billing").ttl(TTL);
    let run = leader.run(|term: Term| {
        let io = io.clone();
        async move {
            let mut stopping = pin!(term.stopping());
            loop {
                io.print(&Step { at: now(), token: term.fencing_token().get() });
                tokio::select! {
                    () = tokio::time::sleep(STEP) => {}
                    () = &mut stopping => return,
                }
            }
        }
    });
    let stop = async {
        io.stopped().await;
        leader.stop().await;
    };
    tokio::select! {
        ended = run => drop(ended?),
        () = stop => {}
    }
    redlock.shutdown().await;
    Ok(())
}

/// The candidates, and their observed steps.
struct Election {
    nodes: Nodes,
    candidates: BTreeMap<usize, Member>,
    started: usize,
    report: UnboundedSender<(usize, Step)>,
    reports: UnboundedReceiver<(usize, Step)>,
    steps: Vec<Step>,
}

async fn play(nodes: Nodes) -> Result<(), Failure> {
    let (report, reports) = unbounded_channel();
    let (candidates, steps) = (BTreeMap::new(), Vec::new());
    let mut election = Election { nodes, candidates, started: 0, report, reports, steps };
    for _ in 0..CANDIDATES {
        election.start_candidate()?;
    }
    let (mut leader, mut step) = election.next_leader(0).await?;
    let mut takeovers = Vec::new();
    for round in 1..=ROUNDS {
        election.watch(AT_WORK).await;
        println!("round {round}: candidate {leader} leads, and is killed");
        let since = now();
        election.take(leader)?.kill().await?;
        election.start_candidate()?;
        (leader, step) = election.next_leader(step.token).await?;
        takeovers.push(Duration::from_nanos(step.at.saturating_sub(since)));
    }
    election.watch(AT_WORK).await;
    println!("candidate {leader} leads, and resigns; takeovers took {takeovers:.2?}");
    let since = now();
    election.take(leader)?.stop().await?;
    (_, step) = election.next_leader(step.token).await?;
    let handover = Duration::from_nanos(step.at.saturating_sub(since));
    election.close(&takeovers, handover).await
}

impl Election {
    fn start_candidate(&mut self) -> Result<(), Failure> {
        self.started += 1;
        let (number, report) = (self.started, self.report.clone());
        let on_line = move |line: String| {
            let step = line.parse().expect("a step");
            // At the end of the test the receiver is gone.
            let _ = report.send((number, step));
        };
        let part = Part::new(Role::Candidate, &format!("candidate-{number}"), &"-");
        self.candidates.insert(number, Member::start(&self.nodes, part, on_line)?);
        Ok(())
    }

    fn take(&mut self, number: usize) -> Result<Member, Failure> {
        Ok(self.candidates.remove(&number).ok_or("a candidate leads that was killed")?)
    }

    /// Waits for a leader of a later term.
    async fn next_leader(&mut self, after: u64) -> Result<(usize, Step), Failure> {
        let next = async {
            while let Some((number, step)) = self.reports.recv().await {
                self.steps.push(step);
                if step.token > after {
                    return Ok((number, step));
                }
            }
            Err("all candidates have ended")
        };
        Ok(timeout(HANG_GUARD, next).await.map_err(|_| "no candidate leads")??)
    }

    async fn watch(&mut self, time: Duration) {
        let watch = async {
            while let Some((_, step)) = self.reports.recv().await {
                self.steps.push(step);
            }
        };
        let _ = timeout(time, watch).await;
    }

    async fn close(mut self, takeovers: &[Duration], handover: Duration) -> Result<(), Failure> {
        for candidate in std::mem::take(&mut self.candidates).into_values() {
            candidate.stop().await?;
        }
        drop(self.report);
        while let Some((_, step)) = self.reports.recv().await {
            self.steps.push(step);
        }
        self.nodes.no_lock_is_left().await;

        self.steps.sort_unstable();
        // A step of an earlier term after one of a later term is by a second leader.
        let pairs = self.steps.windows(2);
        let backward = pairs.filter(|pair| pair[0].token > pair[1].token).count();
        let mut terms: Vec<_> = self.steps.iter().map(|step| step.token).collect();
        terms.dedup();
        let longest = takeovers.iter().max().copied().unwrap_or_default();
        let limit = TTL + TTL / 10 + SLACK;
        judge(&[
            (takeovers.len() == ROUNDS, format!("takeovers: {}", takeovers.len())),
            (longest <= limit, format!("within a TTL and a tenth ({limit:?}): {longest:.2?}")),
            (handover <= SLACK, format!("a leader that resigns is followed: {handover:.2?}")),
            (backward == 0, format!("steps of a former leader beside a new one: {backward}")),
            (terms.is_sorted(), format!("tokens rise from term to term: {} terms", terms.len())),
        ]);
        Ok(())
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.at, self.token)
    }
}

impl FromStr for Step {
    type Err = Failure;

    fn from_str(line: &str) -> Result<Self, Failure> {
        let (at, token) = line.split_once(' ').ok_or("no token")?;
        Ok(Self { at: at.parse()?, token: token.parse()? })
    }
}
