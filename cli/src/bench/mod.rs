//! `redlock bench`: how fast locks are over these servers.

mod latencies;
mod load;
mod report;

use std::{process::ExitCode, time::Duration};

use tower_redlock::Redlock;

use self::load::{Load, Phase};
use crate::{
    args::{SharedArgs, time},
    doctor::{Until, default_timeout, wait},
    exit::{Failure, UNAVAILABLE},
    output::{Progress, print, print_json},
    settings::Settings,
    settle::{quorum, settle, voting},
    signals::EndSignals,
};

/// Numbers of tasks that acquire and release at the same time.
const TASKS: [usize; 2] = [1, 64];

/// Measures how long it takes to acquire and release a lock over these servers
///
/// With 1 task and then with 64, on names of its own, through one process and one thread. It loads the
/// servers while it runs, and leaves no key.
#[derive(Debug, clap::Args)]
pub(crate) struct BenchArgs {
    /// How long each of the two measurements takes
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// How long to wait until a quorum of the servers votes [default: 60s, more where a probation takes
    /// longer]
    #[arg(long, value_name = "TIME", value_parser = time)]
    wait: Option<Duration>,
}

pub(crate) async fn bench(shared: &SharedArgs, args: &BenchArgs) -> Result<ExitCode, Failure> {
    let settings = Settings::new(shared)?;
    let redlock = settings.build()?;
    settle(&redlock).await;
    let needed = quorum(redlock.nodes().len());
    let limit = args.wait.unwrap_or_else(|| default_timeout(settings.max_ttl()));
    if voting(&redlock.health()) < needed && !wait(&redlock, Until::Quorum, limit).await {
        let message = "no quorum of the servers votes: `redlock doctor` says why";
        return Err(Failure::new(UNAVAILABLE, message));
    }
    // Before they are under load.
    let health = redlock.health();
    let mut signals = EndSignals::new();
    let (mut phases, mut signal) = (Vec::new(), None);
    for tasks in TASKS {
        let load = Load::new(tasks, Duration::from_secs(args.seconds), settings.max_ttl());
        let line = format!("acquire and release by {tasks} at a time, for {} s", args.seconds);
        tokio::select! {
            phase = Progress::new().during(&line, load.run(&redlock)) => phases.push(phase),
            code = signals.recv() => {
                signal = Some(code);
                break;
            }
        }
    }
    // Delivers the releases of locks that a signal or an error interrupted.
    tokio::select! {
        () = end(&redlock, settings.max_ttl()) => {}
        code = signals.recv() => return Ok(ExitCode::from(code)),
    }
    if let Some(code) = signal {
        return Ok(ExitCode::from(code));
    }
    if shared.json {
        print_json(&report::json(&health, &phases))?;
    } else {
        print(&report::text(&health, &phases))?;
    }
    match phases.iter().find(|phase| phase.latencies.count() == 0) {
        Some(Phase { error: Some(error), .. }) => Err(Failure::new(UNAVAILABLE, error.clone())),
        Some(_) => Err(Failure::new(UNAVAILABLE, "no lock was acquired in this time")),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// Ends the manager. Keys on a server that does not answer expire after one `max_ttl`.
async fn end(redlock: &Redlock, max_ttl: Duration) {
    let _ = tokio::time::timeout(max_ttl, redlock.shutdown()).await;
}
