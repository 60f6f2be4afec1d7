//! `redlock bench`: how fast locks are over these servers.

use std::{
    cell::RefCell,
    hash::{BuildHasher, RandomState},
    process::ExitCode,
    time::Duration,
};

use futures_util::future::join_all;
use hdrhistogram::Histogram;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};
use tower_redlock::{LockError, Redlock, node::NodeHealth};

use crate::{
    client::{Client, has_votes, quorum, sets, voting},
    doctor::{Until, default_timeout, wait},
    exit::{Failure, UNAVAILABLE},
    options::{SharedArgs, time},
    output::{self, Progress, Table, indented, millis, shown},
    signals::{self, Signals},
};

/// Numbers of tasks that acquire and release at the same time.
const TASKS: [usize; 2] = [1, 64];
/// Pause of a task after an error.
const RETRY_PAUSE: Duration = Duration::from_millis(50);
const COLUMNS: [&str; 6] = [">TASKS", ">CYCLES/S", ">P50", ">P99", ">MAX", ">ERRORS"];

/// Measures how long it takes to acquire and release a lock over these servers
///
/// Runs 1 task and then 64, on names of their own, in one process and one thread. Loads the servers while it
/// runs, and leaves no key.
#[derive(Debug, clap::Args)]
pub(crate) struct BenchArgs {
    /// Length of each of the two measurements
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Maximum wait until a quorum of the servers votes [default: 60s, more if a probation takes longer]
    #[arg(long, value_name = "TIME", value_parser = time)]
    wait: Option<Duration>,
}

pub(crate) async fn bench(shared: &SharedArgs, args: &BenchArgs) -> Result<ExitCode, Failure> {
    let Client { settings, redlock, output } = Client::settled(shared).await?;
    let limit = args.wait.unwrap_or_else(|| default_timeout(settings.max_ttl()));
    if !has_votes(&redlock.health(), &sets(&redlock), quorum)
        && !wait(&redlock, Until::Quorum, limit).await
    {
        let message = "no quorum of the servers votes: `redlock doctor` says why";
        return Err(Failure::new(UNAVAILABLE, message));
    }
    // Before they are under load.
    let health = redlock.health();
    let mut signals = Signals::new(signals::END)?;
    let length = Duration::from_secs(args.seconds);
    let measured = async {
        let mut runs = Vec::new();
        for tasks in TASKS {
            let line = format!("acquire and release by {tasks} at a time, for {length:?}");
            let run = Run::measure(&redlock, tasks, length, settings.max_ttl());
            runs.push(Progress::new().during(&line, run).await);
        }
        runs
    };
    let measured = tokio::select! {
        runs = measured => Ok(runs),
        signal = signals.recv() => Err(signal),
    };
    // Delivers the releases of locks that a signal or an error interrupted. Keys on a server that does not
    // answer expire after one `max_ttl`.
    tokio::select! {
        _ = timeout(settings.max_ttl(), redlock.shutdown()) => {}
        signal = signals.recv() => return Ok(signals::exit_code(signal).into()),
    }
    let runs = match measured {
        Ok(runs) => runs,
        Err(signal) => return Ok(signals::exit_code(signal).into()),
    };
    output.show(&report_json(&health, &runs), &report(&health, &runs))?;
    match runs.into_iter().find(|run| run.micros.is_empty()) {
        None => Ok(ExitCode::SUCCESS),
        Some(run) => {
            let none = "no lock was acquired in this time".into();
            Err(Failure::new(UNAVAILABLE, run.error.unwrap_or(none)))
        }
    }
}

/// What tasks measured that worked at the same time.
struct Run {
    tasks: usize,
    elapsed: Duration,
    /// Latencies in microseconds, with three digits.
    micros: Histogram<u64>,
    errors: u64,
    /// The first of the errors.
    error: Option<String>,
}

impl Run {
    /// Acquires and releases locks by this number of tasks, each on a name of its own, for this time.
    /// `patience` is the limit for a cycle that is under way at the end.
    async fn measure(redlock: &Redlock, tasks: usize, time: Duration, patience: Duration) -> Self {
        let micros = Histogram::new(3).expect("three digits are valid");
        let run = Self { tasks, elapsed: Duration::ZERO, micros, errors: 0, error: None };
        let (begun, run) = (Instant::now(), RefCell::new(run));
        let id = RandomState::new().hash_one(tasks);
        let tasks = (0..tasks).map(async |task| {
            let name = format!("redlock-bench:{id:016x}:{task}");
            while begun.elapsed() < time {
                let cycle_begun = Instant::now();
                let cycle = timeout(time + patience, cycle(redlock, &name)).await;
                let error = match cycle {
                    Ok(Ok(())) => {
                        let elapsed = micros_of(cycle_begun.elapsed());
                        run.borrow_mut().micros.saturating_record(elapsed);
                        continue;
                    }
                    Ok(Err(error)) => error.to_string(),
                    Err(_) => "no answer".into(),
                };
                run.borrow_mut().errors += 1;
                run.borrow_mut().error.get_or_insert(error);
                sleep(RETRY_PAUSE).await;
            }
        });
        join_all(tasks).await;
        Self { elapsed: begun.elapsed(), ..run.into_inner() }
    }

    /// Returns a quantile of the latencies in microseconds; `None` without any.
    fn quantile(&self, quantile: f64) -> Option<u64> {
        (!self.micros.is_empty()).then(|| self.micros.value_at_quantile(quantile))
    }

    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    fn rate(&self) -> f64 {
        let seconds = self.elapsed.as_secs_f64();
        if seconds > 0.0 { self.micros.len() as f64 / seconds } else { 0.0 }
    }
}

async fn cycle(redlock: &Redlock, name: &str) -> Result<(), LockError> {
    let lock = redlock.lock(name).auto_extend(false).await?;
    // The next acquire shows which nodes have not deleted the key.
    let _ = lock.release().await;
    Ok(())
}

fn micros_of(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn report(health: &[NodeHealth], runs: &[Run]) -> String {
    let nodes = health.iter().map(|node| {
        let trip = node.round_trip.map_or_else(|| "unknown".into(), output::time);
        format!("{}: {}, round trip {trip}", shown(&node.name), node.state)
    });
    let latency = |micros: Option<u64>| {
        micros.map_or_else(|| "-".into(), |micros| output::time(Duration::from_micros(micros)))
    };
    let row = |run: &Run| {
        [
            run.tasks.to_string(),
            format!("{:.0}", run.rate()),
            latency(run.quantile(0.5)),
            latency(run.quantile(0.99)),
            latency(run.quantile(1.0)),
            run.errors.to_string(),
        ]
    };
    let error = runs.iter().find_map(|run| run.error.as_ref());
    format!(
        "{} of {} nodes vote\n{}\nacquire and release:\n{}{}",
        voting(health),
        health.len(),
        indented(nodes),
        Table::of(COLUMNS, runs.iter().map(row)),
        error.map_or_else(String::new, |error| format!("\nfirst error: {error}\n"))
    )
}

fn report_json(health: &[NodeHealth], runs: &[Run]) -> Value {
    let node = |node: &NodeHealth| {
        json!({
            "name": &*node.name,
            "votes": node.is_voting(),
            "round_trip_micros": node.round_trip.map(micros_of),
        })
    };
    let run = |run: &Run| {
        json!({
            "tasks": run.tasks,
            "elapsed_ms": millis(run.elapsed),
            "cycles": run.micros.len(),
            "cycles_per_second": run.rate().round(),
            "p50_micros": run.quantile(0.5),
            "p99_micros": run.quantile(0.99),
            "max_micros": run.micros.max(),
            "errors": run.errors,
            "first_error": run.error,
        })
    };
    json!({
        "nodes": health.iter().map(node).collect::<Vec<_>>(),
        "runs": runs.iter().map(run).collect::<Vec<_>>(),
    })
}
