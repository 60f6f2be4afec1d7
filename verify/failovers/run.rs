//! Carries out the failovers one after the other, and collects the workers' observations.

use std::thread;
use std::time::{Duration, Instant};

use tower_redlock::time::{Clock, SystemClock};

use crate::client;
use crate::options::Options;
use crate::outcome::{Outcome, Row};
use crate::plan::{Kind, Planned, plan};
use crate::servers::{CHECK_INTERVAL, EVENT_TIMEOUT, Servers, await_that};
use tower_redlock_verify::checker::longest_gap;
use tower_redlock_verify::driver::Driver;
use tower_redlock_verify::message::{Load, Order};
use tower_redlock_verify::observations::Observations;
use tower_redlock_verify::stop::Stop;

/// Processes of the control, and tasks in each of them.
const CONTROL: (usize, usize) = (4, 6);

/// Time after which an order without effect is repeated.
const REPEAT_ORDER_AFTER: Duration = Duration::from_secs(8);

/// Interval between queries of the directory after a promotion. On a machine without processor
/// time, a directory may consider the promoted server dead, too.
const QUERY_INTERVAL: Duration = Duration::from_secs(1);

/// Runs all failovers. Returns early, with the results so far, when a signal requests an end.
pub(crate) fn run(options: &Options, stop: &Stop) -> Result<Outcome, String> {
    let mut run = Run::start(options)?;
    let started = Instant::now();
    let mut rows: Vec<Row> = Vec::new();
    for step in plan(options.seed, options.failovers) {
        if !run.await_settled(&step, stop)? {
            break;
        }
        thread::sleep(step[0].pause);
        let done = run.step(&step)?;
        for row in &done {
            let gap =
                longest_gap(&run.workers.ledger().entries().holds, done[0].struck, row.voting);
            println!("{:4}  {row}, longest gap between grants {gap:.2?}", rows.len() + 1);
            rows.push(*row);
        }
    }
    let time = started.elapsed();
    let (holds, control) = (run.workers.end()?.holds, run.control.end()?.holds);
    Ok(Outcome { rows, holds, control, time })
}

struct Run {
    // Declared before the servers, as workers are useless without them.
    workers: Driver,
    control: Driver,
    observations: Observations,
    servers: Servers,
}

/// A failover in progress.
struct Underway {
    planned: Planned,
    is_within_probation: bool,
    /// The server that was the master.
    former: usize,
    /// The server that is promoted.
    promoted: usize,
    ordered: Instant,
    /// The time of the latest query of the directory, from the promotion on.
    queried: Instant,
    struck: u64,
    named: Option<u64>,
    /// Run of the promoted server.
    run_id: Option<String>,
    connected: Option<u64>,
    voting: Option<u64>,
    /// The time at which the former master returns; `None` once it has returned.
    back_at: Option<Instant>,
}

impl Run {
    fn start(options: &Options) -> Result<Self, String> {
        let servers = Servers::start()?;
        let redlock = client::redlock(servers.urls(), options.is_guarded);
        let workers = Driver::start(&vec![redlock; options.workers])?;
        let control = Driver::start(&vec![client::plain(&servers.sentinels()); CONTROL.0])?;
        for (driver, tasks) in [(&workers, options.tasks), (&control, CONTROL.1)] {
            driver.await_ready()?;
            driver.order_all(Order::Watch)?;
            driver.order_all(Order::Load(Load { seed: options.seed, tasks, slots: 0 }))?;
        }
        let observations = Observations::new(options.workers, servers.urls().len());
        Ok(Self { workers, control, observations, servers })
    }

    /// Waits until the effects of earlier failovers have ended. Returns false if a signal requests
    /// an end.
    fn await_settled(&mut self, next: &[Planned], stop: &Stop) -> Result<bool, String> {
        let started = Instant::now();
        loop {
            self.listen()?;
            if stop.is_asked_for() {
                return Ok(false);
            }
            let is_settled = |planned: &Planned| self.servers.is_settled(planned.name);
            if self.observations.all_vote() && next.iter().all(is_settled) {
                return Ok(true);
            }
            if started.elapsed() > EVENT_TIMEOUT {
                let (votes, count) = (self.observations.all_vote(), next.len());
                return Err(format!(
                    "not settled after {EVENT_TIMEOUT:?}: all vote: {votes}, before {count} failovers"
                ));
            }
            thread::sleep(CHECK_INTERVAL);
        }
    }

    /// Carries out failovers, each within the probation of the previous one.
    fn step(&mut self, step: &[Planned]) -> Result<Vec<Row>, String> {
        let started = Instant::now();
        let mut planned = step.iter();
        let mut underway: Vec<Underway> = Vec::new();
        loop {
            self.listen()?;
            for failover in &mut underway {
                self.advance(failover)?;
            }
            if underway.last().is_none_or(|last| last.connected.is_some())
                && let Some(&next) = planned.next()
            {
                // The previous failover's probation may have ended already.
                let in_probation = underway.last().is_some_and(|last| last.voting.is_none());
                underway.push(self.begin(next, in_probation)?);
            } else if let Some(rows) =
                underway.iter().map(Underway::row).collect::<Option<Vec<_>>>()
            {
                let end = rows.iter().map(|row| row.voting).max();
                if self
                    .workers
                    .ledger()
                    .entries()
                    .holds
                    .iter()
                    .any(|hold| Some(hold.acquired) > end)
                {
                    return Ok(rows);
                }
            }
            if started.elapsed() > EVENT_TIMEOUT {
                let state: Vec<_> = underway.iter().map(Underway::state).collect();
                return Err(format!("not over after {EVENT_TIMEOUT:?}: {}", state.join("; ")));
            }
            thread::sleep(CHECK_INTERVAL);
        }
    }

    fn begin(&mut self, planned: Planned, is_within_probation: bool) -> Result<Underway, String> {
        let Planned { name, kind, .. } = planned;
        let mut former = None;
        await_that("the directory names a master", || {
            former = self.servers.named(name).first().copied();
            former.is_some()
        })?;
        let former = former.ok_or("no server reports the address of a node")?;
        let struck = self.servers.strike(name, kind, former, now)?;
        Ok(Underway {
            planned,
            is_within_probation,
            former,
            promoted: 1 - former,
            ordered: Instant::now(),
            queried: Instant::now(),
            struck,
            named: None,
            run_id: None,
            connected: None,
            voting: None,
            back_at: None,
        })
    }

    fn advance(&mut self, failover: &mut Underway) -> Result<(), String> {
        let Planned { name, kind, away, .. } = failover.planned;
        if failover.named.is_none() {
            if self.servers.named(name).contains(&failover.promoted) {
                failover.named = Some(now());
                failover.queried = Instant::now();
                failover.back_at = Some(Instant::now() + away);
            } else if kind == Kind::Order && failover.ordered.elapsed() > REPEAT_ORDER_AFTER {
                eprintln!("  the order to the {} had no effect: once more", name.as_str());
                failover.ordered = Instant::now();
                self.servers.strike(name, kind, failover.former, now)?;
            }
            return Ok(());
        }
        if failover.back_at.is_some_and(|at| at <= Instant::now()) {
            self.servers.revive(name, kind, failover.former)?;
            failover.back_at = None;
        }
        if failover.queried.elapsed() > QUERY_INTERVAL {
            failover.queried = Instant::now();
            let named = self.servers.named(name);
            let other = 1 - failover.promoted;
            if !named.is_empty() && named.iter().all(|&server| server == other) {
                eprintln!("  the {} failed over once more by itself", name.as_str());
                (failover.promoted, failover.run_id, failover.connected) = (other, None, None);
            }
        }
        if failover.run_id.is_none() {
            failover.run_id = self.servers.run_id(name, failover.promoted);
        }
        if let Some(run_id) = &failover.run_id {
            let node = name as usize;
            failover.connected = failover.connected.or(self.observations.connected(node, run_id));
            // It may lose its vote again if another node fails over during its probation.
            failover.voting = self.observations.voting(node, run_id);
        }
        Ok(())
    }

    /// Reads the observations of the workers. A worker that has ended is an error.
    fn listen(&mut self) -> Result<(), String> {
        self.workers.check()?;
        self.control.check()?;
        for (worker, observation) in self.workers.ledger().entries().observations.drain(..) {
            self.observations.take(worker, observation);
        }
        Ok(())
    }
}

impl Underway {
    /// Returns the row; `None` until the failover is over.
    fn row(&self) -> Option<Row> {
        if self.back_at.is_some() {
            return None;
        }
        Some(Row {
            planned: self.planned,
            is_within_probation: self.is_within_probation,
            struck: self.struck,
            named: self.named?,
            connected: self.connected?,
            voting: self.voting?,
        })
    }

    fn state(&self) -> String {
        let Planned { name, kind, .. } = self.planned;
        let state = match self {
            Self { named: None, .. } => "the directory names no other master",
            Self { connected: None, .. } => "not all workers are connected to the new master",
            Self { voting: None, .. } => "it does not vote for all workers",
            _ => "it votes",
        };
        format!("{}, {}: {state}", name.as_str(), kind.as_str())
    }
}

fn now() -> u64 {
    SystemClock::new().now().as_nanos()
}
