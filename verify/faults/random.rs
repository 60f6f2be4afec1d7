//! Faults of the matrix that follow each other at random times, drawn from a seed, while workers
//! hold many locks.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tower_redlock_verify::checker::longest_gap;
use tower_redlock_verify::history::Hold;
use tower_redlock_verify::locks::TTL;
use tower_redlock_verify::message::{Load, Order};
use tower_redlock_verify::random::Random;
use tower_redlock_verify::stop::Stop;
use tower_redlock_verify::worker::NAME;

use crate::cell::{Client, SERVERS, SUBJECT, WORKERS};
use crate::fault::{Fault, Needs, Promise, Strike};
use crate::fixture::Fixture;
use crate::options::RandomOptions;
use crate::outcome::{Millis, Outcome, Times};
use crate::recovery::{Recovery, now};
use crate::run::SETTLE_TIME;
use crate::strike::{repair, strike as begin};

/// Number of tasks of each worker, beside the one that contends for the common name.
const TASKS: usize = 12;

/// Number of slots of each worker: one of them uses fewer, as in a deployment that changes it.
const SLOTS: [u32; WORKERS] = [2, 3, 3];

/// Maximum number of faults that follow each other before everything has to work again.
const MAX_SERIES: u64 = 3;

/// Minimum number of grants per second. With fewer, the locks may have kept their promises by being
/// idle.
const MIN_RATE: f64 = 5.0;

/// A fault, and what precedes it.
#[derive(Debug, PartialEq, Eq)]
struct Planned {
    pause: Duration,
    /// Whether the subject keeps the common name instead of contending for it.
    is_held: bool,
    strike: Strike,
}

struct Planner {
    random: Random,
    faults: Vec<&'static Fault>,
}

impl Planner {
    fn new(seed: u64, faults: &[&'static Fault]) -> Self {
        Self { random: Random::stream(seed, 0), faults: faults.to_vec() }
    }

    /// Draws faults that follow each other without a recovery. A fault that clients detect late is
    /// the last one.
    fn series(&mut self) -> Vec<Planned> {
        if self.random.one_in(4)
            && let Some(worst) = self.worst_case()
        {
            return worst;
        }
        let mut series = Vec::new();
        for _ in 0..=self.random.below(MAX_SERIES) {
            let planned = self.draw();
            let is_last = planned.strike.fault.is_detected_late();
            series.push(planned);
            if is_last {
                break;
            }
        }
        series
    }

    /// The worst case in which servers that forget are the fewest: two servers are silent until all
    /// locks are on the other three only, and two of these forget as soon as the two continue.
    fn worst_case(&mut self) -> Option<Vec<Planned>> {
        let first = self.random.index(SERVERS);
        let silent = self.pick(|fault| fault.kind.silences())?;
        let lasts = self.random.times(TTL, 1.1, 1.6);
        let silence = strike(silent, first, 2, lasts);
        let loss =
            self.pick(|fault| fault.breaks_control && fault.promise == Promise::Exclusion)?;
        let loss = strike(loss, first + 2, 2, Duration::ZERO);
        let planned = |strike| Planned { pause: Duration::ZERO, is_held: true, strike };
        Some(vec![planned(silence), planned(loss)])
    }

    fn draw(&mut self) -> Planned {
        let fault = self.pick(|_| true).expect("there are some");
        let random = &mut self.random;
        let count = match fault.promise {
            Promise::Exclusion if fault.servers > 0 => 1 + random.index(fault.servers),
            _ => fault.servers,
        };
        let first = random.index(SERVERS);
        let pause = if random.one_in(2) { Duration::ZERO } else { random.millis(0..500) };
        let lasts = if fault.kind.is_momentary() {
            Duration::ZERO
        } else if fault.is_detected_late() {
            // Every client checks every server's clock at least once a second.
            random.millis(1_200..2_000)
        } else {
            random.millis(50..2_000)
        };
        let is_held = random.one_in(2);
        Planned { pause, is_held, strike: strike(fault, first, count, lasts) }
    }

    fn pick(&mut self, is_wanted: impl Fn(&Fault) -> bool) -> Option<&'static Fault> {
        let wanted = self.faults.iter().copied().filter(|fault| is_wanted(fault));
        self.random.pick(&wanted.collect::<Vec<_>>()).copied()
    }
}

/// A strike of so many servers, from the `first` one on.
fn strike(fault: &'static Fault, first: usize, count: usize, lasts: Duration) -> Strike {
    let targets = (first..first + count).map(|server| server % SERVERS).collect();
    Strike { fault, targets, lasts }
}

/// The findings of a run.
#[derive(Debug)]
pub(crate) struct RandomOutcome {
    client: Client,
    time: Duration,
    /// The number of faults, by name.
    faults: BTreeMap<&'static str, usize>,
    outcome: Outcome,
    /// How many grants are of slots, and how many are shared.
    slots: usize,
    shared: usize,
    /// Longest time between two grants of the common name.
    longest_gap: Duration,
}

/// Runs random faults for a while. An error means that they were not carried out.
pub(crate) fn run(
    client: Client,
    options: &RandomOptions,
    stop: &Stop,
    runtime: &Handle,
) -> Result<RandomOutcome, String> {
    let needs = options.faults.iter().map(|fault| fault.kind.needs());
    let needs = needs.fold(Needs::default(), Needs::and);
    let mut fixture = Fixture::start(client, needs, 0, runtime)?;
    fixture.await_ready()?;
    let driver = &fixture.driver;
    driver.order_all(Order::Contend)?;
    driver.order_all(Order::Probe)?;
    for (worker, slots) in SLOTS.into_iter().enumerate() {
        let slots = if client == Client::Plain { 0 } else { slots };
        driver.order(worker, Order::Load(Load { seed: options.seed, tasks: TASKS, slots }))?;
    }
    let mut planner = Planner::new(options.seed, &options.faults);
    let (started, from) = (Instant::now(), now());
    let mut faults = BTreeMap::new();
    let mut times = Times { recovery: Recovery::IMMEDIATE, ..Times::default() };
    while started.elapsed() < options.time && times.recovery.is_complete() && !stop.is_asked_for() {
        let mut last = 0..0;
        let mut promise = Promise::Exclusion;
        for planned in planner.series() {
            eprintln!("{:8.3} s  {}", started.elapsed().as_secs_f64(), planned.strike);
            last = carry_out(&mut fixture, &planned)?;
            promise = planned.strike.fault.promise;
            *faults.entry(planned.strike.fault.name).or_default() += 1;
        }
        fixture.driver.order(SUBJECT, Order::Contend)?;
        let mut recovery = Recovery::default();
        recovery.complete(&fixture, last.end)?;
        times.recovery = times.recovery.longest(recovery);
        if promise == Promise::Fencing {
            // Holders that have lost their locks unseen detect it, or these end.
            thread::sleep(TTL);
            times.beyond_exclusion.push(last.start..now());
        }
    }
    let (time, until) = (started.elapsed(), now());
    thread::sleep(SETTLE_TIME);
    let entries = fixture.driver.end()?;
    let grants = |is_wanted: fn(&&Hold) -> bool| entries.holds.iter().filter(is_wanted);
    Ok(RandomOutcome {
        client,
        time,
        faults,
        outcome: Outcome::of(&entries, &times),
        slots: grants(|hold| hold.resource.starts_with("slot:")).count(),
        shared: grants(|hold| hold.is_shared).count(),
        longest_gap: longest_gap(grants(|hold| hold.resource == NAME), from, until),
    })
}

/// Returns the time from the strike to the end of the repair.
fn carry_out(fixture: &mut Fixture, planned: &Planned) -> Result<Range<u64>, String> {
    let order = if planned.is_held { Order::Acquire } else { Order::Contend };
    fixture.driver.order(SUBJECT, order)?;
    thread::sleep(planned.pause);
    let struck = now();
    begin(fixture, &planned.strike)?;
    thread::sleep(planned.strike.lasts);
    repair(fixture, &planned.strike)?;
    Ok(struck..now())
}

impl RandomOutcome {
    /// Returns why the run failed, if it did.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = self.outcome.problems(self.client);
        if self.client.is_guarded() {
            let rate = self.rate();
            if rate < MIN_RATE {
                problems.push(format!("only {rate:.1} grants a second"));
            }
            for (count, what) in [(self.slots, "slot"), (self.shared, "shared lock")] {
                if count == 0 {
                    problems.push(format!("no {what} was granted"));
                }
            }
        } else if self.outcome.overlaps == 0 {
            problems.push("no overlap: these faults prove nothing".into());
        }
        let name = self.client.name();
        problems.into_iter().map(|problem| format!("{name}: {problem}")).collect()
    }

    fn rate(&self) -> f64 {
        f64::from(u32::try_from(self.outcome.grants).unwrap_or(u32::MAX)) / self.time.as_secs_f64()
    }
}

impl fmt::Display for RandomOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, time) = (self.faults.values().sum::<usize>(), self.time.as_secs());
        let Self { client, outcome, slots, shared, longest_gap, .. } = self;
        writeln!(f, "{}: {count} faults in {time} s: {outcome}", client.name())?;
        writeln!(
            f,
            "  {:.0} grants a second; holds of slots: {slots}, shared: {shared}",
            self.rate()
        )?;
        let shared = Millis(outcome.recovery.shared);
        let gap = longest_gap.as_millis();
        writeln!(f, "  every worker got the common name again at most {shared} after the repairs")?;
        writeln!(f, "  longest time between two grants of it: {gap} ms")?;
        let faults: Vec<_> =
            self.faults.iter().map(|(name, count)| format!("{name} {count}")).collect();
        writeln!(f, "  {}", faults.join(", "))?;
        self.outcome.examples().iter().try_for_each(|example| writeln!(f, "  {example}"))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::fault::FAULTS;

    fn planned(seed: u64) -> Vec<Vec<Planned>> {
        let faults: Vec<_> = FAULTS.iter().filter(|fault| fault.is_repeatable()).collect();
        let mut planner = Planner::new(seed, &faults);
        (0..200).map(|_| planner.series()).collect()
    }

    #[test]
    fn seed_determines_the_faults() {
        assert_eq!(planned(5), planned(5));
        assert_ne!(planned(5), planned(6));
    }

    #[test]
    fn plan_has_every_repeatable_fault() {
        let names: BTreeSet<_> =
            planned(1).iter().flatten().map(|planned| planned.strike.fault.name).collect();
        let repeatable = FAULTS.iter().filter(|fault| fault.is_repeatable());
        assert_eq!(names, repeatable.map(|fault| fault.name).collect());
    }

    #[test]
    fn fault_that_is_detected_late_ends_its_series() {
        for series in planned(2) {
            let before = &series[..series.len() - 1];
            assert!(before.iter().all(|planned| !planned.strike.fault.is_detected_late()));
        }
    }

    #[test]
    fn targets_are_distinct_and_at_most_those_of_the_matrix() {
        for Planned { strike, .. } in planned(3).iter().flatten() {
            let targets: BTreeSet<_> = strike.targets.iter().collect();
            assert_eq!(targets.len(), strike.targets.len(), "{strike}");
            assert!(targets.len() <= strike.fault.servers, "{strike}");
            assert!(strike.targets.iter().all(|&server| server < SERVERS), "{strike}");
        }
    }

    #[test]
    fn worst_case_leaves_locks_on_one_server() {
        let mut worst = 0;
        for series in planned(4) {
            let [silence, loss] = &series[..] else { continue };
            if !(silence.strike.fault.kind.silences()
                && loss.strike.fault.breaks_control
                && silence.strike.lasts > TTL
                && loss.pause.is_zero())
            {
                continue;
            }
            let both = [&silence.strike.targets[..], &loss.strike.targets].concat();
            worst += usize::from(both.into_iter().collect::<BTreeSet<_>>().len() == 4);
        }
        assert!(worst > 20, "{worst}");
    }
}
