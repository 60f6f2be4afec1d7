//! The plan of faults, completely determined by a seed.

use std::ops::Range;
use std::time::Duration;

use crate::fault::{Fault, Strike};
use crate::trial::{MOST_FAULTY, SERVERS};
use tower_redlock_verify::random::Random;

const INTERVAL: Duration = Duration::from_millis(200);

/// In ms. Every client checks every server's clock at least once a second.
const SEEN_BY_ALL: Range<u64> = 1_200..2_000;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Planned {
    /// Time since the start.
    pub(crate) at: Duration,
    pub(crate) strike: Strike,
}

#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) length: Duration,
    pub(crate) max_ttl: Duration,
    pub(crate) workers: usize,
    pub(crate) has_clock_faults: bool,
}

pub(crate) fn plan(seed: u64, scene: &Scene) -> Vec<Planned> {
    let mut planner = Planner::new(seed, scene);
    let mut all = Vec::new();
    let mut at = INTERVAL;
    while at < scene.length {
        if let Some((at, strikes)) = planner.ambush(at) {
            all.extend(strikes.into_iter().map(|strike| Planned { at, strike }));
        }
        all.extend(planner.next(at).into_iter().map(|strike| Planned { at, strike }));
        at += INTERVAL;
    }
    all
}

struct Planner<'a> {
    scene: &'a Scene,
    random: Random,
    servers: [ServerState; SERVERS],
    worker_again: Duration,
    /// The time at which two silent servers return, for which two of the others wait.
    ambush: Option<Duration>,
}

#[derive(Clone, Copy, Debug, Default)]
struct ServerState {
    busy_until: Duration,
    faulty_until: Duration,
}

/// The kinds of faults by which a server forgets grants, or may do so.
#[derive(Clone, Copy, Debug, PartialEq)]
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
        let random = Random::stream(seed, 0);
        Self { scene, random, servers, worker_again, ambush: None }
    }

    /// Usually, two servers fail at the same time.
    fn next(&mut self, at: Duration) -> Vec<Strike> {
        let (faulty, sound) = self.faulty_and_sound(at);
        let strikes = match MOST_FAULTY - faulty.len() {
            0 if self.random.one_in(10) => return self.again(&faulty, at),
            0 => 0,
            // If two servers fail at once, one has to wait for the other.
            1 => usize::from(self.random.one_in(3)),
            free => free - usize::from(self.random.one_in(4)),
        };
        match strikes {
            0 => vec![self.bystander(at)],
            MOST_FAULTY if !self.random.one_in(3) => self.prepare_ambush(sound, at),
            _ if self.random.one_in(3) => {
                let lasts = self.random.millis(50..800);
                self.strike_some(sound, strikes, at, |_, _| Fault::Freeze { lasts })
            }
            _ => self.lose_some(sound, strikes, at),
        }
    }

    /// The worst case that the rule allows: two servers are silent until all locks are only on the
    /// other three, and as soon as they return, two of these three forget.
    fn prepare_ambush(&mut self, sound: Vec<usize>, at: Duration) -> Vec<Strike> {
        let lasts = self.random.times(self.scene.max_ttl, 1.1, 1.6);
        let strikes = self.strike_some(sound, MOST_FAULTY, at, |_, _| Fault::Freeze { lasts });
        self.ambush = Some(at + Fault::Freeze { lasts }.lasts());
        strikes
    }

    /// Returns the prepared faults, if they are due by then.
    fn ambush(&mut self, by: Duration) -> Option<(Duration, Vec<Strike>)> {
        let at = self.ambush.take_if(|at| *at <= by)?;
        let was_silent = |server: &usize| self.servers[*server].busy_until == at;
        let sound = (0..SERVERS).filter(|server| !was_silent(server));
        let sound = sound.filter(|&server| self.servers[server].busy_until < at).collect();
        Some((at, self.lose_some(sound, MOST_FAULTY, at)))
    }

    /// Servers that fail together fail in the same way.
    fn lose_some(&mut self, mut sound: Vec<usize>, strikes: usize, at: Duration) -> Vec<Strike> {
        let loss = self.pick_loss(strikes == MOST_FAULTY);
        if loss == Loss::Copy {
            let from = sound.swap_remove(self.random.index(sound.len()));
            return self.strike_some(sound, 1, at, |_, _| Fault::Copy { from });
        }
        if loss == Loss::Clock {
            let excursion = self.excursion();
            return self.strike_some(sound, strikes, at, |_, _| excursion.clone());
        }
        self.strike_some(sound, strikes, at, |planner, _| planner.lose(loss))
    }

    fn strike_some(
        &mut self,
        mut sound: Vec<usize>,
        strikes: usize,
        at: Duration,
        mut fault: impl FnMut(&mut Self, usize) -> Fault,
    ) -> Vec<Strike> {
        let strike = |_| {
            let server = sound.swap_remove(self.random.index(sound.len()));
            let fault = fault(self, server);
            self.strike(server, fault, at)
        };
        (0..strikes).map(strike).collect()
    }

    fn faulty_and_sound(&self, at: Duration) -> (Vec<usize>, Vec<usize>) {
        (0..SERVERS).partition(|&server| self.servers[server].faulty_until > at)
    }

    fn strike(&mut self, server: usize, fault: Fault, at: Duration) -> Strike {
        for concerned in fault.concerns(server) {
            let state = &mut self.servers[concerned];
            state.busy_until = at + fault.lasts();
            if fault.makes_faulty() {
                let faulty_until = state.busy_until + fault.recovery(self.scene.max_ttl);
                state.faulty_until = state.faulty_until.max(faulty_until);
            }
        }
        Strike::Server(server, fault)
    }

    /// A faulty server loses its data once more.
    fn again(&mut self, faulty: &[usize], at: Duration) -> Vec<Strike> {
        let idle = faulty.iter().filter(|&&server| self.servers[server].busy_until <= at);
        let idle: Vec<_> = idle.copied().collect();
        let server = self.random.pick(&idle).copied();
        server
            .map(|server| {
                let loss = self.pick_loss(false);
                let fault = self.lose(loss);
                self.strike(server, fault, at)
            })
            .into_iter()
            .collect()
    }

    /// A copy needs two servers.
    fn pick_loss(&mut self, has_two: bool) -> Loss {
        let mut kinds = vec![Loss::Blank, Loss::Restore, Loss::Flush];
        if has_two {
            kinds.extend([Loss::Copy; 2]);
        }
        if self.scene.has_clock_faults {
            kinds.extend([Loss::Clock; 2]);
        }
        *self.random.pick(&kinds).expect("there are some")
    }

    /// Returns a fault of one server alone.
    fn lose(&mut self, loss: Loss) -> Fault {
        let random = &mut self.random;
        match loss {
            Loss::Blank => Fault::Blank { down: random.millis(0..100) },
            Loss::Restore => {
                Fault::Restore { down: random.millis(0..100), choice: random.number() }
            }
            Loss::Flush | Loss::Copy => Fault::Flush,
            Loss::Clock => self.excursion(),
        }
    }

    /// A jump forward, and a correction after a while.
    fn excursion(&mut self) -> Fault {
        let minutes = 60 + self.random.below(540);
        Fault::Excursion {
            by: i32::try_from(minutes).expect("a small number"),
            lasts: self.random.millis(SEEN_BY_ALL),
        }
    }

    /// Returns a fault that makes no server faulty.
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
