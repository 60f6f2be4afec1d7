//! Years of virtual time over three replicas with clock jumps, crashes, partitions and deployments:
//! every tick that the policies promise is run, none twice, and no job stops running.
//!
//! | variable | |
//! |---|---|
//! | `SCHEDULER_YEARS_SECONDS` | for how long years are tried, 5 s by default |
//! | `SCHEDULER_YEARS_SEED` | the first seed, 0 by default; with `SCHEDULER_YEARS_COUNT=1`, this one alone |
//! | `SCHEDULER_YEARS_COUNT` | how many years at most |
//! | `SCHEDULER_YEARS_FAULTS` | `jumps`, `crashes`, `outages`, `redeploys`, `losses`, `demands`, or several with commas |
//! | `SCHEDULER_YEARS_KEEP_GOING` | continues after a seed that fails, and lists all of them |
//! | `SCHEDULER_YEARS_PRINT` | prints all that happened |
//!
//! `cargo test --release` has many times the years of a debug build: `scripts/check years`.
//!
//! A seed gives the same year again. A year that fails prints its seed and what happened around the
//! fault.

mod allowed;
mod fates;
mod fleet;
mod history;
mod log;
mod model;
mod plan;
mod promised;
mod rng;
mod wire;

use std::{
    env,
    fmt::Write as _,
    str::FromStr,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use fleet::Fleet;
use history::{History, clock};
use model::{Fault, Judged, judge};
use plan::{Faults, HOUR, MINUTE, Plan};

fn year(seed: u64, faults: Faults) -> History {
    Fleet::new(seed, Plan::new(seed, faults)).live()
}

/// The report of a year's fault.
fn verdict(seed: u64, faults: Faults) -> Result<Judged, String> {
    let history = year(seed, faults);
    if env::var_os("SCHEDULER_YEARS_PRINT").is_some() {
        println!("{:#?}\n{}", history.versions, history.around(0, plan::YEAR));
    }
    let (judged, found) = judge(&history);
    let Some(first) = found.first() else { return Ok(judged) };
    let mut text = String::new();
    for Fault { at, what } in &found {
        let _ = writeln!(text, "seed {seed}, at {}: {what}", clock(*at));
    }
    let around = history.around(first.at.saturating_sub(HOUR), first.at + 2 * MINUTE);
    Err(text + &around)
}

fn setting<T: FromStr>(name: &str) -> Option<T> {
    let value = env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} is not a number: {value}")))
}

#[test]
fn promises_hold_for_years() {
    let limit = Duration::from_secs(setting("SCHEDULER_YEARS_SECONDS").unwrap_or(5));
    let first: u64 = setting("SCHEDULER_YEARS_SEED").unwrap_or(0);
    let count: u64 = setting("SCHEDULER_YEARS_COUNT").unwrap_or(u64::MAX);
    let faults =
        env::var("SCHEDULER_YEARS_FAULTS").map_or(Faults::ALL, |names| Faults::named(&names));
    let keeps_going = env::var_os("SCHEDULER_YEARS_KEEP_GOING").is_some();
    let (next, failed) = (AtomicU64::new(0), AtomicBool::new(false));
    let total = Mutex::new((0_u64, Judged::default()));
    let failures = Mutex::new(Vec::new());
    let begun = Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while begun.elapsed() < limit && (keeps_going || !failed.load(Ordering::Relaxed)) {
                    let nth = next.fetch_add(1, Ordering::Relaxed);
                    if nth >= count {
                        return;
                    }
                    match verdict(first + nth, faults) {
                        Ok(judged) => {
                            let (years, sum) = &mut *total.lock().unwrap();
                            *years += 1;
                            sum.runs += judged.runs;
                            sum.prompt += judged.prompt;
                            sum.made_up += judged.made_up;
                            sum.again += judged.again;
                            sum.reported += judged.reported;
                        }
                        Err(fault) => {
                            failed.store(true, Ordering::Relaxed);
                            failures.lock().unwrap().push((first + nth, fault));
                        }
                    }
                }
            });
        }
    });
    let (years, judged) = total.into_inner().unwrap();
    let rate = Duration::from_secs(years).div_duration_f64(begun.elapsed());
    println!("{years} years in {:.1?}, {rate:.1} a second: {judged:?}", begun.elapsed());
    let mut failures = failures.into_inner().unwrap();
    failures.sort();
    assert!(
        failures.is_empty(),
        "{} of {} years fail; SCHEDULER_YEARS_SEED=<seed> SCHEDULER_YEARS_COUNT=1 repeats one:\n{}",
        failures.len(),
        years + failures.len() as u64,
        failures.into_iter().map(|(_, fault)| fault).collect::<Vec<_>>().join("\n"),
    );
}

#[test]
fn seeds_give_the_same_year_again() {
    for seed in 0..2 {
        let other = std::thread::spawn(move || year(seed, Faults::ALL));
        let (first, second) = (year(seed, Faults::ALL), other.join().expect("the year ends"));
        assert_eq!(first.fingerprint(), second.fingerprint(), "seed {seed}");
        assert!(first.runs.len() > 10);
    }
}

/// Seeds that found faults once, each with one kind of faults.
#[test]
fn years_that_failed_once_hold() {
    // Jumps that stopped a job for months; ticks before a new schedule, run and reported as
    // missed; a failed claim that restored the old schedule; a partitioned replica that
    // reported ticks of others as missed; a replica that waited for a free lock, up to
    // its TTL; another jitter taken for another schedule; an end on one node of three, found
    // and lost again; a claim on one node of three, repeated after its tick was reported as missed.
    let years = [
        ("jumps", 0),
        ("redeploys", 0),
        ("all", 74),
        ("all", 124),
        ("all", 505),
        ("all", 1560),
        ("all", 200),
        ("all", 2485),
        ("outages", 3),
        ("none", 11),
    ];
    for (faults, seed) in years {
        if let Err(fault) = verdict(seed, Faults::named(faults)) {
            panic!("{faults}: {fault}");
        }
    }
}
