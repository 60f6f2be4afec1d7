//! Carries out a plan.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use std::{mem, thread};

use crate::fault::{Fault, Strike};
use crate::ledger::Ledger;
use crate::plan::Planned;
use crate::server::Server;
use crate::trial::Trial;
use tower_redlock_verify::workers::Workers;

const SNAPSHOT_INTERVAL: Duration = Duration::from_millis(600);

/// The number of faults, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) done: BTreeMap<&'static str, usize>,
    /// A majority of sound servers would not have been left, or the target was busy.
    pub(crate) put_off: usize,
    /// The fault could not be carried out.
    pub(crate) failed: usize,
}

impl Tally {
    pub(crate) fn total(&self) -> usize {
        self.done.values().sum()
    }
}

#[derive(Debug)]
pub(crate) struct Injector<'a> {
    pub(crate) servers: &'a [Mutex<Server>],
    pub(crate) workers: &'a Workers,
    pub(crate) max_ttl: Duration,
    pub(crate) verbose: bool,
    ledger: Ledger,
    addrs: Vec<SocketAddr>,
    tally: Mutex<Tally>,
    broken: Mutex<Option<String>>,
}

impl<'a> Injector<'a> {
    pub(crate) fn new(
        servers: &'a [Mutex<Server>],
        workers: &'a Workers,
        trial: &Trial,
        verbose: bool,
    ) -> Self {
        let addrs: Vec<_> = servers.iter().map(|server| lock(server).addr()).collect();
        Self {
            servers,
            workers,
            max_ttl: trial.ttl,
            verbose,
            ledger: Ledger::new(&addrs, trial.has_restart_guard()),
            addrs,
            tally: Mutex::default(),
            broken: Mutex::default(),
        }
    }

    /// Returns when all planned faults have happened and ended. `look` is called a few times a
    /// second; returning `false` ends the plan early.
    pub(crate) fn run(
        &self,
        plan: &[Planned],
        length: Duration,
        mut look: impl FnMut(&Tally) -> Result<bool, String>,
    ) -> Result<Tally, String> {
        let started = Instant::now();
        let mut snapshot_at = Duration::ZERO;
        let mut snapshots = 0;
        thread::scope(|scope| {
            let mut planned = plan.iter().peekable();
            while started.elapsed() < length {
                let now = started.elapsed();
                // Simultaneous faults begin together, regardless of how long the query for voting
                // servers takes.
                let mut begun = Vec::new();
                while let Some(due) = planned.next_if(|due| due.at <= now) {
                    if self.may_begin(&due.strike) {
                        begun.push(&due.strike);
                    } else {
                        lock(&self.tally).put_off += 1;
                    }
                }
                for strike in begun {
                    scope.spawn(|| self.strike(strike, started));
                }
                if snapshot_at <= now {
                    self.take_snapshot(snapshots % self.servers.len());
                    snapshots += 1;
                    snapshot_at = now + SNAPSHOT_INTERVAL;
                }
                if let Some(problem) = lock(&self.broken).take() {
                    return Err(problem);
                }
                if !look(&lock(&self.tally).clone())? {
                    break;
                }
                thread::sleep(Duration::from_millis(10));
            }
            Ok(())
        })?;
        // Checks the errors of the last faults.
        match lock(&self.broken).take() {
            Some(problem) => Err(problem),
            None => Ok(mem::take(&mut lock(&self.tally))),
        }
    }

    fn may_begin(&self, strike: &Strike) -> bool {
        match strike {
            Strike::Server(server, fault) => self.ledger.begin(*server, fault),
            Strike::Worker(..) => true,
        }
    }

    fn strike(&self, strike: &Strike, started: Instant) {
        if self.verbose {
            eprintln!("  {:7.3} s  {strike:?}", started.elapsed().as_secs_f64());
        }
        let result = match strike {
            Strike::Server(server, fault) => self.strike_server(*server, fault),
            Strike::Worker(worker, lasts) => self.workers.freeze(*worker, *lasts),
        };
        let mut tally = lock(&self.tally);
        match result {
            Ok(()) => *tally.done.entry(strike.name()).or_default() += 1,
            Err(problem) => {
                tally.failed += 1;
                eprintln!("  a fault failed: {strike:?}: {problem}");
            }
        }
    }

    fn strike_server(&self, server: usize, fault: &Fault) -> Result<(), String> {
        let result = lock(&self.servers[server]).strike(fault, &self.addrs);
        self.ledger.end(server, fault, Instant::now() + fault.recovery(self.max_ttl));
        // Without its servers a run proves nothing, and none is down once its fault is over.
        if let (Err(problem), Fault::Blank { .. } | Fault::Restore { .. }) = (&result, fault) {
            *lock(&self.broken) = Some(problem.clone());
        }
        result
    }

    fn take_snapshot(&self, server: usize) {
        self.ledger.while_idle(server, || {
            if let Err(problem) = lock(&self.servers[server]).take_snapshot() {
                eprintln!("  no snapshot: {problem}");
            }
        });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().expect("nobody panics with it")
}
