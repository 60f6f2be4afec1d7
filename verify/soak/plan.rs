//! Which fault comes when: all that a seed determines, before anything has happened.

use std::time::Duration;

use crate::fault::{AT_ONCE, Fault, Strike};
use crate::random::Random;
use crate::trial::{ClockFaults, MOST_FAULTY, SERVERS};

const INTERVAL: Duration = Duration::from_millis(200);

/// The least that a server's clock is ahead, in seconds. Fencing tokens need clocks that differ by
/// less than a minute, and the workers' differ, too.
const LEAST_AHEAD: i32 = -20;

/// A pause is shorter than what a lock lives without its holder.
const LONGEST_PAUSE: Duration = Duration::from_millis(150);

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
        if let Some((at, strikes)) = planner.ambush(at) {
            planned.extend(strikes.into_iter().map(|strike| Planned { at, strike }));
        }
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
    /// When two servers come back that were silent, which two of the others wait for.
    ambush: Option<Duration>,
}

#[derive(Clone, Copy, Debug, Default)]
struct ServerState {
    busy_until: Duration,
    faulty_until: Duration,
    /// By how many seconds its clock is ahead.
    ahead: i32,
}

/// The kinds of faults by which a server forgets what it has granted, or may do so.
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

    /// Servers fail in twos, mostly.
    fn next(&mut self, at: Duration) -> Vec<Strike> {
        let (faulty, sound) = self.faulty_and_sound(at);
        let strikes = match MOST_FAULTY - faulty.len() {
            0 if self.random.one_in(10) => return self.again(&faulty, at),
            0 => 0,
            // For two at once, one has to wait for the other.
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

    /// The worst that the rule allows: two are silent until all locks stand on the other three
    /// only, and as soon as they are back, two of these three forget.
    fn prepare_ambush(&mut self, sound: Vec<usize>, at: Duration) -> Vec<Strike> {
        let lasts = self.random.times(self.scene.max_ttl, 1.1, 1.6);
        let strikes = self.strike_some(sound, MOST_FAULTY, at, |_, _| Fault::Freeze { lasts });
        self.ambush = Some(at + Fault::Freeze { lasts }.lasts());
        strikes
    }

    /// What was prepared, where it is due by then.
    fn ambush(&mut self, by: Duration) -> Option<(Duration, Vec<Strike>)> {
        let at = self.ambush.take_if(|at| *at <= by)?;
        let was_silent = |server: &usize| self.servers[*server].busy_until == at;
        let sound = (0..SERVERS).filter(|server| !was_silent(server));
        let sound = sound.filter(|&server| self.servers[server].busy_until < at).collect();
        Some((at, self.lose_some(sound, MOST_FAULTY, at)))
    }

    /// What fails together fails alike.
    fn lose_some(&mut self, sound: Vec<usize>, strikes: usize, at: Duration) -> Vec<Strike> {
        let loss = self.pick_loss();
        if loss == Loss::Clock && self.scene.clocks == ClockFaults::TakenBack {
            let excursion = self.excursion();
            let mut all = self.pauses(excursion.lasts(), strikes);
            all.extend(self.strike_some(sound, strikes, at, |_, _| excursion.clone()));
            return all;
        }
        self.strike_some(sound, strikes, at, |planner, server| planner.lose(server, loss))
    }

    /// Whoever looks at a clock while it is wrong is warned. So for a short while nobody looks but
    /// one worker, whose requests let the server find that its keys have expired.
    fn pauses(&mut self, lasts: Duration, strikes: usize) -> Vec<Strike> {
        if strikes < MOST_FAULTY || lasts > LONGEST_PAUSE {
            return Vec::new();
        }
        let awake = self.random.index(self.scene.workers);
        let paused = (0..self.scene.workers).filter(|&worker| worker != awake);
        paused.map(|worker| Strike::Pause(worker, lasts)).collect()
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
                let loss = self.pick_loss();
                let fault = self.lose(server, loss);
                self.strike(server, fault, at)
            })
            .into_iter()
            .collect()
    }

    fn pick_loss(&mut self) -> Loss {
        let mut kinds = vec![Loss::Blank, Loss::Restore, Loss::Flush, Loss::Copy];
        let clocks = match self.scene.clocks {
            ClockFaults::None => 0,
            ClockFaults::Stay => 2,
            ClockFaults::TakenBack => 6,
        };
        kinds.extend([Loss::Clock].repeat(clocks));
        *self.random.pick(&kinds).expect("there are some")
    }

    fn lose(&mut self, server: usize, loss: Loss) -> Fault {
        let random = &mut self.random;
        match loss {
            Loss::Blank => Fault::Blank { down: random.millis(0..100) },
            Loss::Restore => Fault::Restore { down: random.millis(0..100), choice: random.next() },
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
        let at_once = !self.random.one_in(3);
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
