//! Which fault comes when: all that a seed determines, before anything has happened.

use std::time::Duration;

use crate::fault::{AT_ONCE, Fault, Strike};
use crate::random::Random;
use crate::trial::{ClockFaults, MOST_FAULTY, SERVERS};

const INTERVAL: Duration = Duration::from_millis(200);

/// The least that a server's clock is ahead, in seconds. Fencing tokens need clocks that differ by
/// less than a minute, and the workers' differ, too.
const LEAST_AHEAD: i32 = -20;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Planned {
    /// Since the start.
    pub(crate) at: Duration,
    pub(crate) strike: Strike,
}

#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) length: Duration,
    pub(crate) max_ttl: Duration,
    pub(crate) workers: usize,
    pub(crate) clocks: ClockFaults,
}

pub(crate) fn plan(seed: u64, scene: &Scene) -> Vec<Planned> {
    let mut planner = Planner::new(seed, scene);
    let mut planned = Vec::new();
    let mut at = INTERVAL;
    while at < scene.length {
        planned.extend(planner.next(at).into_iter().map(|strike| Planned { at, strike }));
        at += INTERVAL;
    }
    planned
}

struct Planner<'a> {
    scene: &'a Scene,
    random: Random,
    servers: [ServerState; SERVERS],
    worker_again: Duration,
}

#[derive(Clone, Copy, Debug, Default)]
struct ServerState {
    busy_until: Duration,
    faulty_until: Duration,
    /// By how many seconds its clock is ahead.
    ahead: i32,
}

/// The kinds of faults by which a server forgets what it has granted, or may do so.
#[derive(Clone, Copy, Debug)]
enum Loss {
    Blank,
    Restore,
    Flush,
    Clock,
    Copy,
}

impl<'a> Planner<'a> {
    fn new(seed: u64, scene: &'a Scene) -> Self {
        let servers = [ServerState::default(); SERVERS];
        let worker_again = Duration::ZERO;
        Self { scene, random: Random::stream(seed, 0), servers, worker_again }
    }

    /// Servers fail in twos, mostly: two that are silent while locks are taken on the other three,
    /// and then two of these three that forget, are the worst that the rule allows.
    fn next(&mut self, at: Duration) -> Vec<Strike> {
        let faulty = |server: &usize| self.servers[*server].faulty_until > at;
        let (faulty, mut sound): (Vec<_>, Vec<_>) = (0..SERVERS).partition(faulty);
        let strikes = match MOST_FAULTY - faulty.len() {
            0 if self.random.one_in(10) => return self.again(&faulty, at),
            0 => 0,
            // For two at once, one has to wait for the other.
            1 => usize::from(self.random.one_in(3)),
            free => free - usize::from(self.random.one_in(4)),
        };
        if strikes == 0 {
            return vec![self.bystander(at)];
        }
        let freeze = self.random.one_in(2);
        let freeze = freeze.then(|| Fault::Freeze { lasts: self.random.millis(50..800) });
        let strike = |_| {
            let server = sound.swap_remove(self.random.index(sound.len()));
            let fault = freeze.clone().unwrap_or_else(|| self.loss(server));
            self.strike(server, fault, at)
        };
        (0..strikes).map(strike).collect()
    }

    fn strike(&mut self, server: usize, fault: Fault, at: Duration) -> Strike {
        let state = &mut self.servers[server];
        state.busy_until = at + fault.lasts();
        if fault.makes_faulty() {
            let faulty_until = state.busy_until + fault.recovery(self.scene.max_ttl);
            state.faulty_until = state.faulty_until.max(faulty_until);
        }
        Strike::Server(server, fault)
    }

    /// One that is faulty anyway loses its data once more.
    fn again(&mut self, faulty: &[usize], at: Duration) -> Vec<Strike> {
        let idle = faulty.iter().filter(|&&server| self.servers[server].busy_until <= at);
        let idle: Vec<_> = idle.copied().collect();
        let server = self.random.pick(&idle).copied();
        server
            .map(|server| {
                let fault = self.loss(server);
                self.strike(server, fault, at)
            })
            .into_iter()
            .collect()
    }

    fn loss(&mut self, server: usize) -> Fault {
        let mut kinds = vec![Loss::Blank, Loss::Restore, Loss::Flush, Loss::Copy];
        if self.scene.clocks != ClockFaults::None {
            // It stands for two: forward and back, or at once and later.
            kinds.extend([Loss::Clock; 2]);
        }
        let random = &mut self.random;
        match random.pick(&kinds).expect("there are some") {
            Loss::Blank => Fault::Blank { down: random.millis(0..300) },
            Loss::Restore => Fault::Restore { down: random.millis(0..300), choice: random.next() },
            Loss::Flush => Fault::Flush,
            Loss::Clock if self.scene.clocks == ClockFaults::TakenBack => self.excursion(),
            Loss::Clock => self.jump(server),
            Loss::Copy => {
                let other = 1 + random.index(SERVERS - 1);
                Fault::Copy { from: (server + other) % SERVERS }
            }
        }
    }

    /// Forward, and the next time back, more or less.
    fn jump(&mut self, server: usize) -> Fault {
        let ahead = self.servers[server].ahead;
        let room = ahead - LEAST_AHEAD;
        let back = room > 5 && (ahead > 600 || self.random.one_in(2));
        let to = if back {
            let by = 2 + self.random.below(u64::from(room.unsigned_abs()) - 1);
            ahead - i32::try_from(by).expect("not more than the room")
        } else {
            ahead + self.minutes()
        };
        self.servers[server].ahead = to;
        if back { Fault::Back { to } } else { Fault::Forward { to } }
    }

    /// Forward, and back to the right time: at once, or after a while.
    fn excursion(&mut self) -> Fault {
        let at_once = self.random.one_in(2);
        let at_once_millis = u64::try_from(AT_ONCE.as_millis()).expect("a short time");
        let millis = if at_once { 5..at_once_millis } else { at_once_millis + 1..1_000 };
        Fault::Excursion { by: self.minutes(), lasts: self.random.millis(millis) }
    }

    /// In seconds.
    fn minutes(&mut self) -> i32 {
        i32::try_from(60 + self.random.below(540)).expect("a small number")
    }

    /// What makes no server faulty.
    fn bystander(&mut self, at: Duration) -> Strike {
        if self.worker_again <= at && self.random.one_in(3) {
            let worker = self.random.index(self.scene.workers);
            let lasts = self.random.times(self.scene.max_ttl, 1.1, 2.0);
            self.worker_again = at + lasts + self.scene.max_ttl;
            return Strike::Worker(worker, lasts);
        }
        let idle = |server: &usize| self.servers[*server].busy_until <= at;
        let idle: Vec<_> = (0..SERVERS).filter(idle).collect();
        let server = *self.random.pick(&idle).expect("few are busy");
        self.strike(server, Fault::Disconnect, at)
    }
}

#[cfg(test)]
mod tests;
