//! Runs a test in many schedules, or in a recorded one.

use std::{
    env, fs,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use shuttle::{
    Config, FailurePersistence, MaxSteps, Runner,
    scheduler::{PctScheduler, RandomScheduler, ReplayScheduler, Scheduler},
};

/// Number of schedules of each test and scheduler, unless `SCHEDULES_ITERATIONS` sets another one.
const ITERATIONS: usize = 500;

/// Seed of the schedulers, unless `SCHEDULES_SEED` sets another one.
const SEED: u64 = 1;

/// Depth of the PCT scheduler: it finds bugs that need this number of constraints on the order of
/// steps.
const DEPTH: usize = 3;

/// Maximum number of steps of a schedule.
const MAX_STEPS: usize = 500_000;

/// Stack of each task and thread, in bytes.
const STACK: usize = 512 << 10;

/// Runs a test in thousands of schedules: half of them chosen at random, half by priorities (PCT).
///
/// With `SCHEDULES_REPLAY` it runs in the schedule of that file only.
///
/// # Panics
///
/// If the test panics or deadlocks in a schedule, which is then written to a file.
pub fn explore(test: impl Fn() + Send + Sync + 'static) {
    let test = Arc::new(test);
    if let Ok(file) = env::var("SCHEDULES_REPLAY") {
        let schedule = ReplayScheduler::new_from_file(file).expect("a file with a schedule");
        Runner::new(schedule, config()).run(move || test());
        return;
    }
    let (iterations, seed) =
        (setting("SCHEDULES_ITERATIONS", ITERATIONS), setting("SCHEDULES_SEED", SEED));
    let random = RandomScheduler::new_from_seed(seed, iterations);
    run(random, "random", iterations, Arc::clone(&test));
    run(PctScheduler::new_from_seed(seed, DEPTH, iterations), "PCT", iterations, test);
}

fn run<T>(scheduler: impl Scheduler + 'static, kind: &str, iterations: usize, test: Arc<T>)
where
    T: Fn() + Send + Sync + 'static,
{
    let begun = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&begun);
    let runner = Runner::new(scheduler, config());
    let all = catch_unwind(AssertUnwindSafe(|| {
        runner.run(move || {
            count.fetch_add(1, Ordering::Relaxed);
            test();
        })
    }));
    if let Err(panic) = all {
        let begun = begun.load(Ordering::Relaxed);
        let name = thread::current().name().unwrap_or("the test").to_owned();
        eprintln!("{name} failed in schedule {begun} of {iterations} of the {kind} scheduler");
        eprintln!("to replay the file named above, in verify/schedules:");
        eprintln!("    SCHEDULES_REPLAY=FILE cargo test {name} -- --exact");
        resume_unwind(panic);
    }
}

fn config() -> Config {
    // The folder is the same for all tests, as shuttle writes schedules to the folder of its first
    // test.
    let folder = env::temp_dir().join("redlock-schedules");
    fs::create_dir_all(&folder).expect("a folder for failing schedules");
    let mut config = Config::new();
    config.stack_size = STACK;
    config.max_steps = MaxSteps::FailAfter(MAX_STEPS);
    config.failure_persistence = FailurePersistence::File(Some(folder));
    // All orderings count as `SeqCst`: see the limits in the README.
    config.silence_warnings = true;
    config
}

fn setting<T: std::str::FromStr>(name: &str, default: T) -> T {
    match env::var(name) {
        Ok(value) => value.parse().unwrap_or_else(|_| panic!("{name} is no number: {value}")),
        Err(_) => default,
    }
}
