//! Processes whose tasks all want one name, and hold it for a while, in virtual time.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tower_redlock::time::Clock as _;

use crate::durations::MINUTE;
use crate::fixture::Fixture;

const HOLD: Duration = Duration::from_millis(2);
/// It is not known at first whether other processes wait.
const WARM_UP: Duration = Duration::from_millis(500);

#[derive(Default)]
struct Log {
    /// The wait for each grant.
    waits: Vec<Duration>,
    /// The processes, in the order of their grants.
    processes: Vec<usize>,
}

impl Log {
    fn longest_wait(&self) -> Duration {
        self.waits.iter().copied().max().expect("there is a grant")
    }

    /// Maximum number of consecutive grants of one process.
    fn longest_turn(&self) -> usize {
        self.processes.chunk_by(|a, b| a == b).map(<[_]>::len).max().expect("there is a grant")
    }

    fn served(&self, process: usize) -> usize {
        self.processes.iter().filter(|one| **one == process).count()
    }

    fn least_to_most(&self) -> f64 {
        let served = |most: bool| {
            let all = (0..=*self.processes.iter().max().expect("there is a grant"))
                .map(|one| self.served(one));
            let count = if most { all.max() } else { all.min() };
            f64::from(u32::try_from(count.expect("there is a grant")).expect("the count fits"))
        };
        served(false) / served(true)
    }
}

/// Runs processes with this number of tasks each for some seconds, and returns their log.
fn contend(processes: usize, tasks: usize) -> Log {
    let Fixture { clock, nodes, .. } = Fixture::new(3, []);
    let log = Arc::new(Mutex::new(Log::default()));
    let counted_from = clock.now() + WARM_UP;
    let until = counted_from + Duration::from_secs(4);
    for process in 0..processes {
        let redlock = nodes.replica(format!("process {process}")).redlock();
        for _ in 0..tasks {
            let (time, redlock, log) = (clock.clone(), redlock.clone(), Arc::clone(&log));
            drop(clock.spawn(async move {
                while time.now() < until {
                    let asked = time.now();
                    let lock = redlock.lock("x").wait(MINUTE).await.unwrap();
                    if asked >= counted_from {
                        let mut log = log.lock().unwrap();
                        log.waits.push(time.now().saturating_duration_since(asked));
                        log.processes.push(process);
                    }
                    time.sleep(HOLD).await;
                    drop(lock);
                }
            }));
        }
    }
    clock.advance(until.saturating_duration_since(clock.now()) + MINUTE);
    std::mem::take(&mut *log.lock().unwrap())
}

/// Returns the mean wait in a queue of all tasks, each served in its turn.
fn fair(processes: usize, tasks: usize) -> Duration {
    HOLD * u32::try_from(processes * tasks - 1).unwrap()
}

#[track_caller]
fn assert_is_fair(processes: usize, tasks: usize) -> Log {
    let log = contend(processes, tasks);
    let (longest, fair) = (log.longest_wait(), fair(processes, tasks));
    assert!(longest <= fair * 4, "{longest:?}, where a fair line takes {fair:?}");
    let share = log.least_to_most();
    assert!(share > 0.9, "least to most served: {share:.2}");
    log
}

#[test]
fn processes_share_as_one_line() {
    let log = assert_is_fair(4, 4);
    // The grants in 20 ms, and one that began before.
    assert!(log.longest_turn() <= 11, "{} grants in a row", log.longest_turn());
    // No attempt is lost if the servers answer at once.
    assert!(log.waits.len() > 1_900, "{} grants in 4 s", log.waits.len());
}

#[test]
fn many_processes_share_as_one_line() {
    assert_is_fair(16, 4);
}

#[test]
fn processes_with_short_lines_take_turns() {
    assert_is_fair(8, 2);
}

/// A turn takes 5 ms and a hold: with a single task that is several grants.
#[test]
fn single_tasks_take_turns() {
    let log = contend(4, 1);
    let (longest, turn) = (log.longest_wait(), Duration::from_millis(5) + HOLD);
    assert!(longest <= turn * 3 * 2, "{longest:?}");
    let share = log.least_to_most();
    assert!(share > 0.9, "least to most served: {share:.2}");
}
