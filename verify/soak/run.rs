//! One trial, from the start of its servers to the findings in its history.

use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use crate::injector::{Injector, Tally};
use crate::options::Options;
use crate::plan::{Scene, plan};
use crate::report::Outcome;
use crate::server::Server;
use crate::trial::{SERVERS, Trial};
use crate::worker::WorkerOptions;
use tower_redlock_verify::checker::check;
use tower_redlock_verify::stop::Stop;
use tower_redlock_verify::workers::{Heard, Workers};

const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// Timeout for servers to vote: blank ones may not vote for the longest TTL.
const PATIENCE_FOR_READY: Duration = Duration::from_secs(20);

pub(crate) fn run(trial: &Trial, options: &Options, stop: &Stop) -> Result<Outcome, String> {
    let servers = start_servers(trial.has_clock_faults)?;
    let urls: Vec<_> = servers.iter().map(|server| format!("redis://{}", server.addr())).collect();
    let servers: Vec<_> = servers.into_iter().map(Mutex::new).collect();
    let worker_options = |worker| WorkerOptions {
        worker,
        seed: options.seed,
        tasks: options.tasks,
        urls: urls.join(","),
        ttl: trial.ttl,
        locks: trial.locks,
    };
    let args: Vec<_> =
        (0..options.workers).map(|worker| worker_options(worker).to_args()).collect();
    let workers = Workers::start(&args)?;
    let mut heard = Heard::default();
    workers.await_ready(&mut heard, PATIENCE_FOR_READY)?;

    let length = options.length(trial);
    let scene = Scene {
        length,
        max_ttl: trial.ttl,
        workers: options.workers,
        has_clock_faults: trial.has_clock_faults,
    };
    let planned = plan(options.seed, &scene);
    let started = Instant::now();
    let mut progress = Progress { trial, started, last_look: started, last_shown: started };
    let injector = Injector::new(&servers, &workers, trial, options.verbose);
    let tally = injector.run(&planned, length, |tally| {
        progress.look(&workers, &mut heard, tally)?;
        Ok(!stop.is_asked_for())
    })?;
    let time = started.elapsed();
    workers.end(&mut heard)?;
    let outcome = Outcome::of(&heard.holds, tally, time);
    eprintln!("{}: {outcome}", trial.name);
    Ok(outcome)
}

fn start_servers(have_clocks: bool) -> Result<Vec<Server>, String> {
    thread::scope(|scope| {
        let start = || Server::start(have_clocks);
        let starting: Vec<_> = (0..SERVERS).map(|_| scope.spawn(start)).collect();
        starting.into_iter().map(|server| server.join().expect("starting fails, or not")).collect()
    })
}

struct Progress<'a> {
    trial: &'a Trial,
    started: Instant,
    last_look: Instant,
    last_shown: Instant,
}

impl Progress<'_> {
    fn look(&mut self, workers: &Workers, heard: &mut Heard, tally: &Tally) -> Result<(), String> {
        if self.last_look.elapsed() < LOOK_INTERVAL {
            return Ok(());
        }
        self.last_look = Instant::now();
        workers.listen(heard)?;
        if self.last_shown.elapsed() >= PROGRESS_INTERVAL {
            self.last_shown = Instant::now();
            let findings = check(&heard.holds);
            eprintln!(
                "{}: {} s, {} faults, {} holds, {} overlaps, {} tokens out of order",
                self.trial.name,
                self.started.elapsed().as_secs(),
                tally.total(),
                heard.holds.len(),
                findings.overlaps.len(),
                findings.disorders.len(),
            );
        }
        Ok(())
    }
}
