//! One of five servers is slow, frozen or dead.

use std::{thread, time::Duration};

use super::distinct::KINDS;
use crate::{
    contestants::Kind,
    cycles::{self, Outcome},
    options::{Options, rotated},
    servers::Servers,
};

pub(crate) const TASKS: [usize; 2] = [1, 64];
const DELAY: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    Healthy,
    /// The server is stopped (SIGSTOP) when the measurement begins.
    Frozen,
    /// The server was killed before, so its port refuses connections.
    Dead,
    /// One server is behind a proxy, which adds only its own work.
    Proxied,
    /// The answers of one server are delayed.
    Slow,
}

impl Condition {
    pub(crate) const ALL: [Self; 5] =
        [Self::Healthy, Self::Frozen, Self::Dead, Self::Proxied, Self::Slow];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Healthy => "all well",
            Self::Frozen => "one frozen",
            Self::Dead => "one dead",
            Self::Proxied => "one behind a proxy",
            Self::Slow => "that one slow by 20 ms",
        }
    }

    /// Returns the condition to compare with, unless this is the sound one.
    pub(crate) fn sound(self) -> Option<Self> {
        match self {
            Self::Healthy | Self::Proxied => None,
            Self::Frozen | Self::Dead => Some(Self::Healthy),
            Self::Slow => Some(Self::Proxied),
        }
    }
}

pub(crate) fn case(tasks: usize, condition: Condition) -> String {
    format!("{}, {}", super::tasks(tasks), condition.name())
}

/// Measures over the five servers of other scenarios, and over two more sets.
pub(crate) fn measure(healthy: &Servers, options: &Options) {
    // New sets vote after a while, so both are started at once.
    let proxied = thread::spawn(|| Servers::start_proxied(1));
    let [mut maimed] = Servers::start([5]);
    maimed.kill_one();
    let sets = Sets { healthy, maimed, proxied: proxied.join().expect("they start") };
    for round in 0..options.rounds {
        for tasks in TASKS {
            for kind in rotated(&KINDS, round) {
                // Interleaved, because the results are reported as ratios.
                for condition in Condition::ALL {
                    let outcome = sets.measure(condition, kind, tasks, options.time);
                    outcome.emit(&case(tasks, condition), kind);
                }
            }
        }
    }
}

struct Sets<'a> {
    healthy: &'a Servers,
    maimed: Servers,
    proxied: Servers,
}

impl Sets<'_> {
    fn measure(&self, condition: Condition, kind: Kind, tasks: usize, time: Duration) -> Outcome {
        let healthy = self.healthy;
        match condition {
            Condition::Healthy => cycles::measure(healthy, kind, tasks, time, || ()),
            Condition::Frozen => {
                cycles::measure(healthy, kind, tasks, time, || healthy.freeze_one())
            }
            Condition::Dead => cycles::measure(&self.maimed, kind, tasks, time, || ()),
            Condition::Proxied => cycles::measure(&self.proxied, kind, tasks, time, || ()),
            Condition::Slow => {
                self.proxied.slow(DELAY);
                let outcome = cycles::measure(&self.proxied, kind, tasks, time, || ());
                self.proxied.slow(Duration::ZERO);
                outcome
            }
        }
    }
}
