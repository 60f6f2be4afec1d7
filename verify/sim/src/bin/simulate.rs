//! Runs seeds of the simulation: `scripts/simulate --help`.

use std::{
    collections::BTreeMap,
    io::{IsTerminal, Write},
    process::ExitCode,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tower_redlock_sim::{
    control::{Control, controls},
    world::{Outcome, Scenario, Settings, run},
};

const HELP: &str = "\
Runs the client over simulated servers, in virtual time, under faults that come out of seeds.

  --seeds N     how many seeds (default 100)
  --from S      the first seed (default 0)
  --seed S      this seed alone, with its trace
  --minutes M   seeds until M minutes have passed
  --threads T   default: one for each processor
  --commands    the trace has each command of each server
  --control C   without the guard C: the first seed that shows it, or with --seed its trace
  --controls    each guard is taken out in turn

Exit code: 0 nothing was broken, 1 something was, 2 wrong arguments.";

#[derive(Default)]
struct Options {
    seeds: Option<u64>,
    from: u64,
    seed: Option<u64>,
    minutes: Option<u64>,
    threads: Option<usize>,
    shows_commands: bool,
    control: Option<String>,
    all_controls: bool,
}

fn options() -> Result<Options, String> {
    let mut options = Options::default();
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut number = || {
            let text = args.next().ok_or(format!("{arg} needs a number"))?;
            text.parse::<u64>().map_err(|_| format!("{arg}: {text} is no number"))
        };
        match &*arg {
            "--seeds" => options.seeds = Some(number()?),
            "--from" => options.from = number()?,
            "--seed" => options.seed = Some(number()?),
            "--minutes" => options.minutes = Some(number()?),
            "--threads" => options.threads = usize::try_from(number()?).ok(),
            "--commands" => options.shows_commands = true,
            "--controls" => options.all_controls = true,
            "--control" => options.control = Some(args.next().ok_or("--control needs a name")?),
            _ => return Err(HELP.into()),
        }
    }
    Ok(options)
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(text) => {
            eprintln!("{text}");
            return ExitCode::from(2);
        }
    };
    if options.all_controls || (options.control.is_some() && options.seed.is_none()) {
        return run_controls(&options);
    }
    match options.seed {
        Some(seed) => replay(&options, seed),
        None => search(&options),
    }
}

fn control(options: &Options) -> Option<Control> {
    let name = options.control.as_ref()?;
    controls().into_iter().find(|control| control.name == name)
}

/// Runs one seed, and prints its trace.
fn replay(options: &Options, seed: u64) -> ExitCode {
    let control = control(options);
    let scenario =
        control.as_ref().map_or_else(|| Scenario::of(seed), |control| control.scenario(seed));
    let settings = control.map_or_else(Settings::default, |control| control.settings);
    let settings = Settings { shows_commands: options.shows_commands, ..settings };
    let outcome = run(&scenario, &settings);
    print!("{}", outcome.trace);
    report(seed, &outcome);
    if outcome.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn report(seed: u64, outcome: &Outcome) {
    println!("seed {seed}: {:?} simulated, {:?}", outcome.simulated, outcome.counts);
    for violation in &outcome.violations {
        println!("  {violation}");
    }
}

/// The findings of all threads.
#[derive(Default)]
struct Found {
    seeds: u64,
    simulated: Duration,
    counts: BTreeMap<&'static str, u64>,
    failed: Vec<(u64, Outcome)>,
}

/// Timeout for a seed. Only a seed whose virtual time no longer moves takes longer.
const HANG: Duration = Duration::from_secs(120);

/// Runs seeds in parallel.
fn search(options: &Options) -> ExitCode {
    let began = Instant::now();
    let limit = options.minutes.map(|minutes| Duration::from_secs(60 * minutes));
    let seeds = options.seeds.unwrap_or(if limit.is_some() { u64::MAX } else { 100 });
    let threads = options
        .threads
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get));
    let (next, found, over) =
        (AtomicU64::new(0), Mutex::new(Found::default()), AtomicBool::new(false));
    let running_seeds = Mutex::new(BTreeMap::new());
    let under_way = || running_seeds.lock().unwrap_or_else(PoisonError::into_inner);
    let lock = || found.lock().unwrap_or_else(PoisonError::into_inner);
    std::thread::scope(|scope| {
        let work = || {
            while limit.is_none_or(|limit| began.elapsed() < limit) {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= seeds {
                    return;
                }
                let seed = options.from + number;
                under_way().insert(seed, Instant::now());
                let outcome = run(&Scenario::of(seed), &Settings::default());
                under_way().remove(&seed);
                let mut found = lock();
                found.seeds += 1;
                found.simulated += outcome.simulated;
                for (what, count) in &outcome.counts {
                    *found.counts.entry(what).or_default() += count;
                }
                if !outcome.violations.is_empty() {
                    clear_line();
                    report(seed, &outcome);
                    found.failed.push((seed, outcome));
                }
            }
        };
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let shows = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                if let Some((seed, _)) = under_way().iter().find(|(_, at)| at.elapsed() > HANG) {
                    println!("seed {seed} does not end: a task runs without a pause");
                    std::process::exit(1);
                }
                let done = lock();
                let part = match limit {
                    Some(limit) => began.elapsed().as_secs_f64() / limit.as_secs_f64(),
                    #[allow(clippy::cast_precision_loss)]
                    None => done.seeds as f64 / seeds.max(1) as f64,
                };
                show(part, &done);
                drop(done);
                std::thread::park_timeout(Duration::from_millis(200));
            }
        });
        for thread in running {
            // A panic of the client in a seed ends the thread, and is printed to stderr.
            if thread.join().is_err() {
                lock().failed.push((u64::MAX, Outcome::default()));
            }
        }
        over.store(true, Ordering::Relaxed);
        shows.thread().unpark();
    });
    clear_line();
    let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!(
        "{} seeds from {}, {} s simulated in {} s: {:?}",
        found.seeds,
        options.from,
        found.simulated.as_secs(),
        began.elapsed().as_secs(),
        found.counts
    );
    let Some((seed, outcome)) = found.failed.first() else {
        println!("no violation");
        return ExitCode::SUCCESS;
    };
    print!("{}", outcome.trace);
    println!("{} seeds failed; the trace above is that of --seed {seed}", found.failed.len());
    ExitCode::FAILURE
}

fn show(part: f64, found: &Found) {
    if !std::io::stderr().is_terminal() {
        return;
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let full = (part.clamp(0.0, 1.0) * 30.0) as usize;
    eprint!(
        "\r[{}{}] {} seeds, {} s simulated, {} failed ",
        "#".repeat(full),
        ".".repeat(30 - full),
        found.seeds,
        found.simulated.as_secs(),
        found.failed.len()
    );
    // Errors are ignored: a progress bar that cannot be shown is not needed.
    let _ = std::io::stderr().flush();
}

fn clear_line() {
    if std::io::stderr().is_terminal() {
        eprint!("\r{}\r", " ".repeat(79));
    }
}

/// Disables guards, and prints the first seed that detects each.
fn run_controls(options: &Options) -> ExitCode {
    let mut all = controls();
    all.retain(|control| options.control.as_ref().is_none_or(|name| control.name == name));
    if all.is_empty() {
        let names: Vec<_> = controls().iter().map(|control| control.name).collect();
        eprintln!("no such guard; there are: {}", names.join(", "));
        return ExitCode::from(2);
    }
    let mut missed = 0;
    for control in all {
        let seeds = options.seeds.unwrap_or(control.seeds);
        let first = control.first(options.from..options.from + seeds);
        if let Some((seed, violation)) = first {
            println!("{}: seed {seed}: {violation}", control.name);
        } else {
            missed += 1;
            println!("{}: nothing in {seeds} seeds", control.name);
        }
    }
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
