//! The plan of a year, from a seed: jobs, their schedules, and faults.

use std::time::Duration;

use tower_redlock::{
    Schedule,
    schedule::WallTime,
    scheduler::{Claim, Missed, Overlap},
};

use crate::scheduler_years::rng::Rng;

/// Milliseconds since the beginning of the year.
pub(crate) type Ms = u64;

pub(crate) const SECOND: Ms = 1_000;
pub(crate) const MINUTE: Ms = 60 * SECOND;
pub(crate) const HOUR: Ms = 60 * MINUTE;
pub(crate) const DAY: Ms = 24 * HOUR;
pub(crate) const YEAR: Ms = 365 * DAY;

/// The wall clock at the beginning of the year, in ms since the epoch.
pub(crate) const EPOCH: Ms = 1_735_689_600_000;

pub(crate) const MACHINES: usize = 3;
pub(crate) const NODES: usize = 3;

/// Which kinds of faults there are.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is switched on by itself")]
pub(crate) struct Faults {
    /// Wall clocks of machines that jump.
    pub(crate) jumps: bool,
    /// Processes that crash, and such as are shut down and started again.
    pub(crate) crashes: bool,
    /// Nodes that stop or freeze, and machines that are cut off.
    pub(crate) outages: bool,
    /// Other schedules.
    pub(crate) redeploys: bool,
    /// Requests and answers that get lost or come late.
    pub(crate) losses: bool,
    /// Runs on demand, pauses, and claims that reach a minority of the nodes.
    pub(crate) demands: bool,
}

impl Faults {
    pub(crate) const NONE: Self = Self {
        jumps: false,
        crashes: false,
        outages: false,
        redeploys: false,
        losses: false,
        demands: false,
    };
    pub(crate) const ALL: Self = Self {
        jumps: true,
        crashes: true,
        outages: true,
        redeploys: true,
        losses: true,
        demands: true,
    };

    /// From a list of names, separated by commas.
    pub(crate) fn named(names: &str) -> Self {
        let mut faults = Self::NONE;
        for name in names.split(',').filter(|name| !name.is_empty()) {
            match name {
                "jumps" => faults.jumps = true,
                "crashes" => faults.crashes = true,
                "outages" => faults.outages = true,
                "redeploys" => faults.redeploys = true,
                "losses" => faults.losses = true,
                "demands" => faults.demands = true,
                "all" => faults = Self::ALL,
                "none" => {}
                _ => panic!("no such fault: {name}"),
            }
        }
        faults
    }
}

/// One job in one version of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rules {
    pub(crate) period: Ms,
    pub(crate) jitter: Ms,
    pub(crate) missed: Missed,
    pub(crate) overlap: Overlap,
    pub(crate) claim: Claim,
    pub(crate) start_within: Ms,
    pub(crate) catch_up: Ms,
    pub(crate) takes: Ms,
}

impl Rules {
    pub(crate) fn schedule(&self) -> Schedule {
        let ms = Duration::from_millis;
        Schedule::every(ms(self.period)).jitter(ms(self.jitter))
    }

    /// Whether it has the same ticks. A jitter moves starts, and no ticks.
    pub(crate) const fn has_schedule_of(&self, other: &Self) -> bool {
        self.period == other.period
    }

    /// When the run of a tick starts.
    pub(crate) fn start(&self, job: usize, tick: Ms) -> Ms {
        if self.jitter == 0 {
            return tick;
        }
        let start = self.schedule().start(name(job), WallTime::from_millis(EPOCH + tick));
        start.as_millis() - EPOCH
    }

    /// The first tick after a moment.
    pub(crate) const fn tick_after(&self, after: Ms) -> Ms {
        after + self.period - (EPOCH + after) % self.period
    }

    /// The last tick that is not after a moment; `None` before the year.
    pub(crate) fn tick_until(&self, until: Ms) -> Option<Ms> {
        until.checked_sub((EPOCH + until) % self.period)
    }

    /// How many of its ticks may be behind.
    pub(crate) fn at_most(&self) -> u64 {
        match self.missed {
            Missed::RunAll { at_most } => at_most as u64,
            _ => 1,
        }
    }
}

pub(crate) fn name(job: usize) -> &'static str {
    ["reports", "invoices", "backups"][job]
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum How {
    Stop,
    Freeze,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// The wall clock of a machine is set: so far ahead of the true time.
    Jump {
        machine: usize,
        ahead: i64,
    },
    Boot {
        machine: usize,
    },
    Crash {
        machine: usize,
    },
    /// Shut down, in order.
    Leave {
        machine: usize,
    },
    Down {
        nodes: u8,
        how: How,
    },
    Up,
    /// A machine does not reach these nodes.
    Cut {
        machine: usize,
        nodes: u8,
    },
    Heal {
        machine: usize,
    },
    /// Requests and answers get lost.
    Lossy(bool),
    /// Runs a job on demand.
    Trigger {
        machine: usize,
        job: usize,
    },
    /// Pauses a job on the whole fleet for a time.
    Pause {
        job: usize,
        time: Ms,
    },
    /// The claims of a machine do not reach these nodes.
    CutClaims {
        machine: usize,
        nodes: u8,
    },
    /// The next version of the service is there: to be booted from now on.
    Release {
        version: usize,
    },
    /// All machines run it.
    Deployed,
}

#[derive(Debug)]
pub(crate) struct Plan {
    /// Each with its jobs.
    pub(crate) versions: Vec<Vec<Rules>>,
    pub(crate) events: Vec<(Ms, Event)>,
    /// Requests take their time on the way.
    pub(crate) is_slow: bool,
}

impl Plan {
    pub(crate) fn new(seed: u64, faults: Faults) -> Self {
        let rng = &mut Rng::new(seed);
        let jobs = rng.pick(&[1, 1, 1, 2, 2, 3]);
        let mut plan = Self {
            versions: vec![(0..jobs).map(|_| rules(rng, false)).collect()],
            events: Vec::new(),
            is_slow: rng.percent(30),
        };
        for machine in 0..MACHINES {
            plan.events.push((rng.below(20 * SECOND), Event::Boot { machine }));
        }
        let releases = if faults.redeploys { plan.deploys(rng) } else { vec![(0, 0)] };
        if faults.jumps {
            plan.jumps(rng, &releases);
        }
        if faults.crashes {
            plan.crashes(rng, &releases);
        }
        if faults.outages {
            plan.outages(rng, &releases);
        }
        if faults.losses {
            plan.losses(rng, &releases);
        }
        if faults.demands {
            // Of its own, so that the other faults of a seed stay the same.
            plan.demands(&mut Rng::new(seed ^ 0x6465_6d61_6e64), &releases);
        }
        plan.events.sort_by_key(|(at, _)| *at);
        plan
    }

    fn demands(&mut self, rng: &mut Rng, releases: &[(Ms, usize)]) {
        let jobs = self.versions[0].len();
        for _ in 0..rng.between(4, 40) {
            let at = self.moment(rng, releases);
            let (machine, job) = (rng.index(MACHINES), rng.index(jobs));
            self.events.push((at, Event::Trigger { machine, job }));
        }
        for _ in 0..rng.below(5) {
            let at = self.moment(rng, releases).saturating_sub(rng.below(10 * SECOND));
            let (job, time) = (rng.index(jobs), rng.magnitude(SECOND, 3 * DAY));
            self.events.push((at, Event::Pause { job, time }));
        }
        for _ in 0..rng.between(1, 8) {
            let at = self.moment(rng, releases);
            let machine = rng.index(MACHINES);
            let nodes = rng.pick(&[0b011, 0b101, 0b110, 0b111]);
            let end = at + rng.magnitude(20, 2 * MINUTE);
            self.events.push((at.saturating_sub(10), Event::CutClaims { machine, nodes }));
            if rng.percent(60) {
                let crash = at + rng.below(end - at);
                self.events.push((crash, Event::Crash { machine }));
                let back = crash + rng.magnitude(SECOND, DAY);
                self.events.push((back, Event::Boot { machine }));
            }
            self.events.push((end, Event::CutClaims { machine, nodes: 0 }));
        }
    }

    /// A moment at which something goes wrong: often one at which something is going on.
    fn moment(&self, rng: &mut Rng, releases: &[(Ms, usize)]) -> Ms {
        let at = rng.between(MINUTE, YEAR - 2 * DAY);
        if rng.percent(30) {
            return at;
        }
        // A short version of the service has its share.
        let (at, version) = if rng.percent(30) {
            let (since, version) = releases[rng.index(releases.len())];
            (since + rng.below(2 * HOUR), version)
        } else {
            let last = releases.iter().rev().find(|(since, _)| *since <= at).copied();
            (at, last.unwrap_or_default().1)
        };
        let job = rng.index(self.versions[version].len());
        let rules = &self.versions[version][job];
        let start = rules.start(job, rules.tick_after(at));
        let near = match rng.below(4) {
            0 => start + rng.below(5),
            1 => start + rng.below(100),
            2 => start + rng.below(rules.takes + 2 * SECOND),
            _ => (start + rng.below(20 * SECOND)).saturating_sub(10 * SECOND),
        };
        near.min(YEAR - DAY)
    }

    fn deploys(&mut self, rng: &mut Rng) -> Vec<(Ms, usize)> {
        let mut releases = vec![(0, 0)];
        let mut at = rng.between(DAY, 60 * DAY);
        while at < YEAR - 20 * DAY {
            let version = self.versions.len();
            let before = self.versions[version - 1].clone();
            let was_short = before.iter().any(|rules| rules.period < HOUR);
            let is_short = !was_short && rng.percent(40);
            let other = |rules: &Rules| {
                let stays = rng.percent(25) && !(was_short && rules.period < HOUR);
                if stays { *rules } else { self::rules(rng, is_short) }
            };
            let next: Vec<_> = before.iter().map(other).collect();
            let is_short = next.iter().any(|rules| rules.period < HOUR);
            self.versions.push(next);
            releases.push((at, version));
            self.events.push((at, Event::Release { version }));
            let mut last = at;
            let is_rolling = rng.percent(50);
            let gap = rng.magnitude(SECOND, 10 * MINUTE);
            for machine in 0..MACHINES {
                let down = if is_rolling { at + machine as u64 * gap } else { at };
                let up = down
                    + if is_rolling {
                        rng.between(SECOND, 10 * SECOND)
                    } else {
                        gap + rng.below(SECOND)
                    };
                let leaves = rng.percent(80);
                let stop = if leaves { Event::Leave { machine } } else { Event::Crash { machine } };
                self.events.push((down, stop));
                self.events.push((up, Event::Boot { machine }));
                last = last.max(up);
            }
            self.events.push((last + 1, Event::Deployed));
            at = last
                + if is_short {
                    rng.between(10 * MINUTE, 3 * HOUR)
                } else {
                    rng.between(5 * DAY, 80 * DAY)
                };
        }
        releases
    }

    fn jumps(&mut self, rng: &mut Rng, releases: &[(Ms, usize)]) {
        for _ in 0..rng.between(2, 15) {
            let at = self.moment(rng, releases);
            let machine = rng.index(MACHINES);
            let far = i64::try_from(rng.magnitude(MINUTE, 100 * DAY)).unwrap();
            let ahead = match rng.below(5) {
                0 => 0,
                1 | 2 => far,
                _ => -far,
            };
            self.events.push((at, Event::Jump { machine, ahead }));
        }
    }

    fn crashes(&mut self, rng: &mut Rng, releases: &[(Ms, usize)]) {
        for _ in 0..rng.between(2, 15) {
            let at = self.moment(rng, releases);
            let all = rng.percent(20);
            let one = rng.index(MACHINES);
            let back = at + rng.magnitude(SECOND, 4 * DAY);
            let is_crash = rng.percent(65);
            for machine in (0..MACHINES).filter(|machine| all || *machine == one) {
                let end =
                    if is_crash { Event::Crash { machine } } else { Event::Leave { machine } };
                self.events.push((at + if all { rng.below(SECOND) } else { 0 }, end));
                self.events.push((back + rng.below(2 * MINUTE) + SECOND, Event::Boot { machine }));
            }
        }
    }

    fn outages(&mut self, rng: &mut Rng, releases: &[(Ms, usize)]) {
        for _ in 0..rng.between(2, 12) {
            let at = self.moment(rng, releases);
            let nodes = 1 + u8::try_from(rng.below((1 << NODES) - 1)).unwrap();
            let end = at
                + match rng.below(3) {
                    0 => rng.magnitude(5, 2 * SECOND),
                    _ => rng.magnitude(2 * SECOND, 4 * DAY),
                };
            if rng.percent(60) {
                let how = if rng.percent(50) { How::Stop } else { How::Freeze };
                self.events.push((at, Event::Down { nodes, how }));
                self.events.push((end, Event::Up));
            } else {
                let machine = rng.index(MACHINES);
                self.events.push((at, Event::Cut { machine, nodes }));
                self.events.push((end, Event::Heal { machine }));
            }
        }
    }

    fn losses(&mut self, rng: &mut Rng, releases: &[(Ms, usize)]) {
        for _ in 0..rng.between(1, 6) {
            let at = self.moment(rng, releases);
            self.events.push((at.saturating_sub(SECOND), Event::Lossy(true)));
            self.events.push((at + rng.magnitude(SECOND, 10 * MINUTE), Event::Lossy(false)));
        }
    }
}

fn rules(rng: &mut Rng, is_short: bool) -> Rules {
    let period = if is_short {
        rng.between(1, 20) * 30 * SECOND
    } else {
        match rng.below(4) {
            0 => DAY,
            1 => rng.between(1, 10) * DAY,
            _ => rng.between(8 * 3600, 10 * 86_400) * SECOND,
        }
    };
    let jitter = if rng.percent(25) { rng.magnitude(10, (period / 2).min(10 * MINUTE)) } else { 0 };
    let missed = match rng.below(4) {
        0 => Missed::RunLatest,
        1 => Missed::RunAll { at_most: 1 + rng.index(6) },
        _ => Missed::Skip,
    };
    Rules {
        period,
        jitter,
        missed,
        overlap: rng.pick(&[Overlap::Skip, Overlap::Queue, Overlap::Stop]),
        claim: rng.pick(&[Claim::AtStart, Claim::AtStart, Claim::AtEnd]),
        start_within: rng.pick(&[10 * SECOND, MINUTE, MINUTE, 5 * MINUTE]),
        catch_up: rng.pick(&[HOUR, DAY, DAY, 20 * DAY]),
        takes: if rng.percent(50) { 0 } else { rng.magnitude(10, (period / 30).min(20 * SECOND)) },
    }
}
