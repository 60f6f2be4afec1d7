//! Which fault comes when: all that a seed determines, before anything has happened.

use std::time::Duration;

use crate::fault::{Fault, Strike};
use crate::random::Random;
use crate::trial::{FaultList, MOST_FAULTY, SERVERS};

const INTERVAL: Duration = Duration::from_millis(200);

/// The least that a server's clock is ahead, in seconds. Fencing tokens need clocks that differ by
/// less than a minute, and the workers' differ, too.
const LEAST_AHEAD: i64 = -20;

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
    pub(crate) faults: FaultList,
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
    ahead: i64,
}

/// The kinds of faults by which a server forgets what it has granted, or may do so.
#[derive(Clone, Copy, Debug)]
enum Loss {
    Blank,
    Restore,
    Flush,
    Clock,
    Flicker,
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
        let freeze = freeze.then(|| Fault::Freeze { lasts: self.random.millis(50..2_000) });
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
        let FaultList { clocks, flickers } = self.scene.faults;
        let mut kinds = vec![Loss::Blank, Loss::Restore, Loss::Flush, Loss::Copy];
        if clocks {
            // It stands for two: forward and back.
            kinds.extend([Loss::Clock; 2]);
        }
        if flickers {
            kinds.extend([Loss::Flicker; 2]);
        }
        let random = &mut self.random;
        match random.pick(&kinds).expect("there are some") {
            Loss::Blank => Fault::Blank { down: random.millis(0..500) },
            Loss::Restore => Fault::Restore { down: random.millis(0..500), choice: random.next() },
            Loss::Flush => Fault::Flush,
            Loss::Clock => self.jump(server),
            Loss::Flicker => {
                Fault::Flicker { by: self.minutes(), lasts: self.random.millis(5..150) }
            }
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
            let by = 2 + self.random.below(room.unsigned_abs() - 1);
            ahead - i64::try_from(by).expect("not more than the room")
        } else {
            ahead + self.minutes()
        };
        self.servers[server].ahead = to;
        if back { Fault::Back { to } } else { Fault::Forward { to } }
    }

    /// In seconds.
    fn minutes(&mut self) -> i64 {
        i64::try_from(60 + self.random.below(540)).expect("a small number")
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
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn scene(flickers: bool) -> Scene {
        Scene {
            length: Duration::from_secs(300),
            max_ttl: Duration::from_secs(1),
            workers: 3,
            faults: FaultList { clocks: true, flickers },
        }
    }

    #[test]
    fn a_seed_determines_the_plan() {
        assert_eq!(plan(5, &scene(true)), plan(5, &scene(true)));
        assert_ne!(plan(5, &scene(true)), plan(6, &scene(true)));
    }

    #[test]
    fn a_majority_is_sound_at_every_moment() {
        for seed in 0..20 {
            let mut faulty_until = [Duration::ZERO; SERVERS];
            let mut busy_until = [Duration::ZERO; SERVERS];
            for Planned { at, strike } in plan(seed, &scene(true)) {
                let Strike::Server(server, fault) = strike else { continue };
                assert!(busy_until[server] <= at, "two faults at once on a server");
                busy_until[server] = at + fault.lasts();
                let until = busy_until[server] + fault.recovery(Duration::from_secs(1));
                if fault.makes_faulty() {
                    faulty_until[server] = faulty_until[server].max(until);
                }
                let faulty = faulty_until.iter().filter(|&&until| until > at).count();
                assert!(faulty <= MOST_FAULTY, "{faulty} servers at {at:?}");
            }
        }
    }

    #[test]
    fn two_servers_often_fail_together() {
        let mut pairs = BTreeMap::new();
        let plan = plan(2, &scene(false));
        for both in plan.windows(2).filter(|both| both[0].at == both[1].at) {
            let of = |name: &str| both.iter().filter(|one| one.strike.name() == name).count();
            *pairs.entry(of("server frozen")).or_insert(0) += 1;
        }
        // Two frozen ones, or two that forget; never one and one.
        assert!(pairs[&0] > 20 && pairs[&2] > 20 && pairs.len() == 2, "{pairs:?}");
    }

    #[test]
    fn every_fault_of_the_list_comes_and_no_other() {
        let count = |flickers| {
            let mut counts = BTreeMap::new();
            for Planned { strike, .. } in plan(1, &scene(flickers)) {
                *counts.entry(strike.name()).or_insert(0) += 1;
            }
            counts
        };
        assert_eq!(count(true).len(), 10);
        assert_eq!(count(false).len(), 9);
        assert!(count(true).values().all(|&n| n >= 3), "{:?}", count(true));
    }

    #[test]
    fn clocks_stay_within_bounds_and_move() {
        let mut ahead = [0; SERVERS];
        for Planned { strike, .. } in plan(3, &scene(false)) {
            let Strike::Server(server, fault) = strike else { continue };
            match fault {
                Fault::Forward { to } => assert!(to >= ahead[server] + 60 && to < 1_300),
                Fault::Back { to } => assert!(to < ahead[server] && to >= LEAST_AHEAD),
                _ => continue,
            }
            ahead[server] =
                if let Fault::Forward { to } | Fault::Back { to } = fault { to } else { 0 };
        }
    }

    #[test]
    fn frozen_workers_outlast_their_locks_one_at_a_time() {
        let mut free = Duration::ZERO;
        for Planned { at, strike } in plan(4, &scene(false)) {
            let Strike::Worker(worker, lasts) = strike else { continue };
            assert!(worker < 3 && lasts > Duration::from_secs(1) && at >= free);
            free = at + lasts;
        }
        assert!(free > Duration::ZERO);
    }
}
