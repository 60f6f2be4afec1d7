//! Three machines with a process each, over nodes, in virtual time.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use tokio::sync::{broadcast, watch};
use tower_redlock::{
    Job, Redlock, Scheduler, SchedulerHandle,
    lock::Spawner,
    scheduler::{JobEvent, JobEventKind},
    testing::{ManualClock, ManualSpawner, Nodes, Replica, Task},
};

use crate::scheduler_years::{
    history::{FleetState, History, ReportedMissed},
    log::Log,
    plan::{EPOCH, Event, How, MACHINES, MINUTE, Ms, NODES, Plan, Rules, SECOND, YEAR, name},
    wire::Network,
};
use crate::support::mock_node::with_nodes;

pub(crate) struct Fleet {
    clock: ManualClock,
    nodes: Nodes,
    network: Network,
    log: Log,
    plan: Plan,
    machines: Vec<Machine>,
    version: usize,
    down: u8,
    is_lossy: bool,
    is_deploying: bool,
    /// Pauses of jobs, until they are over.
    pauses: Vec<(usize, Task<()>)>,
    standings: Vec<FleetState>,
    missed: Vec<ReportedMissed>,
    first_boots: Vec<Option<Ms>>,
    breaks: Vec<Ms>,
}

struct Machine {
    view: ManualClock,
    process: Option<Process>,
    /// Processes that were shut down, and may not have ended.
    leaving: Vec<(Process, Task<()>)>,
    cut: u8,
    /// The nodes that its claims do not reach.
    claims_cut: Arc<AtomicU8>,
}

struct Process {
    version: usize,
    replica: Replica,
    handle: SchedulerHandle,
    events: broadcast::Receiver<JobEvent>,
    killed: watch::Sender<bool>,
    _redlock: Redlock,
}

/// Number of missing nodes without which there is no quorum.
const QUORUM_LOST: u32 = 2;

const TICK_SETTLES: Ms = 2 * SECOND;
/// A replica may take an interrupted run for a current one until its lock is over.
const LATE_SETTLES: Ms = 20 * SECOND;
const EVENT_SETTLES: Ms = 35 * SECOND;

impl Fleet {
    pub(crate) fn new(seed: u64, plan: Plan) -> Self {
        let clock = ManualClock::with_seed(seed);
        let machine = |_| Machine {
            view: clock.ahead_by(Duration::ZERO),
            process: None,
            leaving: Vec::new(),
            cut: 0,
            claims_cut: Arc::default(),
        };
        let network = Network::new(seed, &clock);
        network.set(plan.is_slow, false);
        Self {
            nodes: Nodes::new(NODES, &clock),
            log: Log::new(&clock),
            network,
            machines: (0..MACHINES).map(machine).collect(),
            version: 0,
            down: 0,
            is_lossy: false,
            is_deploying: false,
            pauses: Vec::new(),
            standings: Vec::new(),
            missed: Vec::new(),
            first_boots: vec![None; plan.versions.len()],
            breaks: Vec::new(),
            clock,
            plan,
        }
    }

    /// Runs the year.
    pub(crate) fn live(mut self) -> History {
        let events = std::mem::take(&mut self.plan.events);
        let mut left = events.iter().copied().peekable();
        self.stand();
        let mut awake_until = 0;
        // When ticks came last, and of how many jobs.
        let mut owed: Option<(Ms, usize)> = None;
        loop {
            let now = self.log.now();
            let event = left.peek().map_or(YEAR, |(at, _)| (*at).max(now));
            // Commands are retried until the nodes answer.
            let event = if self.pauses.is_empty() { event } else { event.min(now + 10 * MINUTE) };
            let tick = self.next_start(now);
            let next = event.min(tick).min(YEAR);
            if now < awake_until || self.log.is_any_going() {
                let step = next.min(now + SECOND);
                self.clock.advance(Duration::from_millis(step - now));
            } else {
                self.pass(next - now);
            }
            let now = self.log.now();
            if now >= YEAR {
                break;
            }
            if let Some((since, jobs)) = owed.take_if(|_| now >= awake_until)
                && self.log.jobs_since(since) < jobs
            {
                awake_until = since + LATE_SETTLES;
            }
            if now == tick {
                owed = Some((now, self.jobs_at(now)));
                let settles = if now < awake_until { EVENT_SETTLES } else { TICK_SETTLES };
                awake_until = awake_until.max(now + settles);
            }
            while let Some((_, event)) = left.next_if(|(at, _)| *at <= now) {
                self.apply(event);
                self.clock.settle();
                self.stand();
                awake_until = now + EVENT_SETTLES;
            }
            let open = self.pauses.len();
            self.pauses.retain(|(_, pause)| !pause.is_finished());
            if self.pauses.len() < open {
                self.stand();
                awake_until = now + EVENT_SETTLES;
            }
            self.collect_events();
        }
        self.collect_events();
        History {
            versions: self.plan.versions,
            runs: self.log.runs(),
            standings: self.standings,
            missed: self.missed,
            first_boots: self.first_boots,
            breaks: self.breaks,
            events,
        }
    }

    /// Skips most of a time without events: code that reads the clock periodically
    /// behaves the same.
    fn pass(&self, by: Ms) {
        const BEFORE: Ms = 5;
        let by = if by > SECOND {
            self.clock.leap(Duration::from_millis(by - BEFORE));
            BEFORE
        } else {
            by
        };
        self.clock.advance(Duration::from_millis(by));
    }

    /// When the next tick starts in one of the versions that run.
    fn next_start(&self, now: Ms) -> Ms {
        let versions = self.machines.iter().filter_map(|machine| machine.process.as_ref());
        let mut versions: Vec<usize> = versions.map(|process| process.version).collect();
        versions.push(self.version);
        versions.dedup();
        let next = |(job, rules): (usize, &Rules)| {
            let come = rules.tick_until(now).map(|tick| rules.start(job, tick));
            let ahead = || rules.start(job, rules.tick_after(now));
            come.filter(|start| *start > now).unwrap_or_else(ahead)
        };
        let starts =
            versions.iter().flat_map(|version| self.plan.versions[*version].iter().enumerate());
        starts.map(next).min().unwrap_or(YEAR)
    }

    /// How many jobs have a tick that starts now.
    fn jobs_at(&self, now: Ms) -> usize {
        let jobs = self.plan.versions[self.version].iter().enumerate();
        let starts = |(job, rules): &(usize, &Rules)| {
            rules.tick_until(now).is_some_and(|tick| rules.start(*job, tick) == now)
        };
        jobs.filter(starts).count()
    }

    fn apply(&mut self, event: Event) {
        match event {
            Event::Jump { machine, ahead } => {
                let now = i64::try_from(EPOCH + self.log.now()).unwrap() + ahead;
                let wall = Duration::from_millis(u64::try_from(now).unwrap());
                self.machines[machine].view.set_wall(wall);
            }
            Event::Boot { machine } => self.boot(machine),
            Event::Crash { machine } => {
                self.collect_events();
                let machine = &mut self.machines[machine];
                let leaving = machine.leaving.drain(..).map(|(process, _)| process);
                for process in leaving.chain(machine.process.take()) {
                    process.replica.partition(0..NODES);
                    process.killed.send_replace(true);
                    self.clock.settle();
                }
            }
            Event::Leave { machine } => {
                let machine = &mut self.machines[machine];
                if let Some(process) = machine.process.take() {
                    let handle = process.handle.clone();
                    let down = self.clock.spawn(async move {
                        handle.shutdown(Duration::from_secs(5)).await;
                    });
                    machine.leaving.push((process, down));
                }
            }
            Event::Down { nodes, how } => {
                let nodes_of = each(nodes);
                match how {
                    How::Stop => self.nodes.stop(nodes_of),
                    How::Freeze => self.nodes.freeze(nodes_of),
                }
                self.down |= nodes;
            }
            Event::Up => {
                self.nodes.thaw(0..NODES);
                self.nodes.start(0..NODES);
                self.down = 0;
            }
            Event::Cut { machine, nodes } => {
                let machine = &mut self.machines[machine];
                machine.cut |= nodes;
                for process in machine.processes() {
                    process.replica.partition(each(nodes));
                }
            }
            Event::Heal { machine } => {
                let machine = &mut self.machines[machine];
                machine.cut = 0;
                for process in machine.processes() {
                    process.replica.heal(0..NODES);
                }
            }
            Event::Lossy(is_lossy) => {
                self.is_lossy = is_lossy;
                self.network.set(self.plan.is_slow, is_lossy);
            }
            Event::Trigger { machine, job } => {
                if let Some(process) = &self.machines[machine].process {
                    // It may be shutting down.
                    drop(process.handle.trigger_here(name(job)));
                }
            }
            Event::Pause { job, time } => {
                if !self.pauses.iter().any(|(paused, _)| *paused == job) {
                    self.pause(job, time);
                }
            }
            Event::CutClaims { machine, nodes } => {
                self.machines[machine].claims_cut.store(nodes, Ordering::Relaxed);
            }
            Event::Release { version } => {
                self.version = version;
                self.is_deploying = true;
            }
            Event::Deployed => self.is_deploying = false,
        }
    }

    /// Pauses a job for a time. Repeats each command until a majority of the nodes has it.
    fn pause(&mut self, job: usize, time: Ms) {
        let (clock, job_name) = (self.clock.clone(), name(job));
        let redlock = self.nodes.replica("operator").with_clock(clock.clone()).redlock();
        let task = self.clock.spawn(async move {
            let again = Duration::from_secs(10);
            while redlock.pause_job(job_name).by("ann").await.is_err() {
                clock.sleep(again).await;
            }
            clock.sleep(Duration::from_millis(time)).await;
            while redlock.resume_job(job_name).by("ann").await.is_err() {
                clock.sleep(again).await;
            }
            // Until all replicas have read it.
            clock.sleep(again).await;
        });
        self.pauses.push((job, task));
    }

    fn boot(&mut self, machine: usize) {
        let number = machine;
        let version = self.version;
        let machine = &mut self.machines[number];
        if machine.process.is_some() {
            return;
        }
        let replica = self.nodes.replica(["a", "b", "c"][number]).with_clock(machine.view.clone());
        replica.partition(each(machine.cut));
        let direct = replica.redlock();
        let cut = &machine.claims_cut;
        let ways = direct.nodes().iter().enumerate();
        let ways = ways.map(|(number, node)| self.network.way_to(node, (cut, number)));
        let view = &machine.view;
        let builder = Redlock::builder()
            .owner(["a", "b", "c"][number])
            .spawner(view.spawner())
            .clock(view.clone());
        let redlock = with_nodes(builder, ways).build().unwrap();
        let killed = watch::Sender::new(false);
        let spawner = KillableSpawner { inner: view.spawner(), killed: killed.clone() };
        let jobs = self.plan.versions[version].iter().enumerate();
        let jobs = jobs.map(|(job, rules)| self.job(job, rules, number, version));
        // Time leaps to the next tick, where all replicas would look for unused jobs at once.
        let scheduler = Scheduler::new(redlock.clone())
            .jobs(jobs)
            .spawner(spawner)
            .forget_unused_after(Duration::MAX);
        let handle = scheduler.start().unwrap();
        let events = handle.events();
        self.first_boots[version].get_or_insert(self.log.now());
        self.machines[number].process =
            Some(Process { version, replica, handle, events, killed, _redlock: redlock });
    }

    fn job(&self, job: usize, rules: &Rules, machine: usize, version: usize) -> Job {
        let ms = Duration::from_millis;
        let (log, clock, takes) = (self.log.clone(), self.clock.clone(), ms(rules.takes));
        let work = move |cx: tower_redlock::JobContext| {
            let going = log.begin(job, machine, version, &cx);
            let sleep = clock.sleep(takes);
            async move {
                if !takes.is_zero() {
                    sleep.await;
                }
                going.finished();
            }
        };
        Job::new(name(job), rules.schedule(), work)
            .claim(rules.claim)
            .missed(rules.missed)
            .overlap(rules.overlap)
            .start_within(ms(rules.start_within))
            .catch_up(ms(rules.catch_up))
    }

    fn stand(&mut self) {
        let at = self.log.now();
        let reaches = |cut: u8| (self.down | cut).count_ones() < QUORUM_LOST;
        let fit = std::array::from_fn(|machine| {
            let Machine { process, cut, .. } = &self.machines[machine];
            process.as_ref().filter(|_| reaches(*cut)).map(|process| process.version)
        });
        let is_cut = |machine: &Machine| machine.claims_cut.load(Ordering::Relaxed) != 0;
        let is_lossy = self.is_lossy || self.machines.iter().any(is_cut);
        let is_deploying = self.is_deploying;
        let paused = self.pauses.iter().fold(0, |paused, (job, _)| paused | 1 << job);
        let lost = |before: &FleetState| {
            std::iter::zip(before.fit, fit).any(|(before, now)| before.is_some() && now != before)
        };
        let is_any_leaving = self.machines.iter().any(|machine| !machine.leaving.is_empty());
        if self.standings.last().is_some_and(lost) || is_any_leaving {
            self.breaks.push(at);
        }
        self.standings.push(FleetState { at, fit, is_lossy, is_deploying, paused });
    }

    /// Collects the events of the processes.
    fn collect_events(&mut self) {
        let now = self.log.now();
        for (number, machine) in self.machines.iter_mut().enumerate() {
            machine.leaving.retain(|(_, down)| !down.is_finished());
            let leaving = machine.leaving.iter_mut().map(|(process, _)| process);
            for process in leaving.chain(&mut machine.process) {
                loop {
                    let event = match process.events.try_recv() {
                        Ok(event) => event,
                        Err(broadcast::error::TryRecvError::Lagged(_)) => continue,
                        Err(_) => break,
                    };
                    let (first, why) = match event.kind {
                        JobEventKind::Missed { first, why, .. } => (first, Some(why)),
                        JobEventKind::GivenUp { .. } => (event.tick, None),
                        _ => continue,
                    };
                    let job = (0..3).find(|job| name(*job) == &*event.job).unwrap();
                    let of = |tick: tower_redlock::schedule::WallTime| {
                        tick.as_millis().saturating_sub(EPOCH)
                    };
                    let (first, last) = (of(first), of(event.tick));
                    self.missed.push(ReportedMissed {
                        at: now,
                        machine: number,
                        job,
                        version: process.version,
                        first,
                        last,
                        why,
                    });
                }
            }
        }
    }
}

impl Machine {
    fn processes(&self) -> impl Iterator<Item = &Process> {
        self.leaving.iter().map(|(process, _)| process).chain(&self.process)
    }
}

fn each(nodes: u8) -> Vec<usize> {
    (0..NODES).filter(|node| nodes & (1 << node) != 0).collect()
}

/// Runs tasks until it is killed.
#[derive(Debug)]
struct KillableSpawner {
    inner: ManualSpawner,
    killed: watch::Sender<bool>,
}

impl Spawner for KillableSpawner {
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        let mut killed = self.killed.subscribe();
        self.inner.spawn(Box::pin(async move {
            tokio::select! {
                biased;
                _ = killed.wait_for(|killed| *killed) => {}
                () = task => {}
            }
        }));
    }
}
