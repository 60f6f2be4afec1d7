//! Random walks with random weights.

use super::{
    clocks::Whose,
    step::{NamesStep, Violation},
    world::{CLIENTS, NAMES, NamesWorld, PerName},
};
use crate::quorum::tests::search::{KeptState, Model, ModelWalk, Random};

/// How many kinds of moves a walk chooses from.
const KINDS: usize = 18;
/// How many of them there are without work under locks.
const KINDS_WITHOUT_WORK: usize = 16;
/// The weights that a walk draws for each kind: some kinds are frequent, some are left out.
const WEIGHTS: [usize; 6] = [0, 1, 2, 4, 8, 16];

fn order(names: usize, random: &mut Random) -> Vec<usize> {
    let mut order: Vec<_> = (0..names).collect();
    for at in (1..names).rev() {
        order.swap(at, random.below(at + 1));
    }
    order
}

/// What a client does with which nodes, most of the time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Habits {
    /// Where it takes its locks.
    locks: PerName<bool>,
    /// Where it stores what it reads.
    drives: PerName<bool>,
    /// Whether it keeps its connections while it can.
    sticky: bool,
}

impl Habits {
    fn draw(world: &NamesWorld, random: &mut Random) -> Self {
        let names = world.setup.names;
        let mut subset = |size: usize| {
            let order = order(names, random);
            let mut chosen = [false; NAMES];
            order[..size.min(names)].iter().for_each(|&node| chosen[node] = true);
            (chosen, random.below(2))
        };
        let (locks, _) = subset(world.quorum());
        let (drives, sticky) = subset(world.blocking() + 1);
        let all = random.below(2) == 0;
        Self { locks, drives: if all { [true; NAMES] } else { drives }, sticky: sticky == 0 }
    }
}

/// One walk, and the steps that it took.
#[derive(Debug)]
pub(crate) struct NamesWalk {
    pub(crate) world: NamesWorld,
    pub(crate) trace: Vec<NamesStep>,
    random: Random,
    weights: [[usize; KINDS]; CLIENTS],
    habits: [Habits; CLIENTS],
}

impl NamesWalk {
    pub(crate) fn new(world: NamesWorld, habits: Option<[Habits; CLIENTS]>, seed: u64) -> Self {
        let mut random = Random(seed);
        let mut weights = [[0; KINDS]; CLIENTS];
        let kinds = if world.setup.work.is_some() { KINDS } else { KINDS_WITHOUT_WORK };
        for weight in weights.iter_mut().flat_map(|weights| &mut weights[..kinds]) {
            *weight = WEIGHTS[random.below(WEIGHTS.len())];
        }
        for weights in &mut weights {
            if !world.setup.locks {
                weights[9..=12].fill(0);
            }
            if world.setup.is_layout {
                // Ticks and faults are of all layouts.
                weights[..2].fill(0);
                weights[13] = weights[13].max(1);
                continue;
            }
            weights[0] = weights[0].max(1);
        }
        let habits = habits.unwrap_or_else(|| Self::draw_habits(&world, &mut random));
        Self { world, trace: Vec::new(), random, weights, habits }
    }

    pub(crate) fn apply(&mut self, step: NamesStep) {
        if self.world.violation.is_none() && self.world.apply(step) {
            self.trace.push(step);
        }
    }

    fn disturb(&mut self, client: usize, node: usize, machine: usize) {
        if self.world.setup.drift > 0 && self.random.below(2) == 0 {
            let of_client = self.random.below(2) == 0;
            let server = Whose::Server { node, machine };
            let clock = if of_client { Whose::Client(client) } else { server };
            return self.apply(NamesStep::Gain { clock });
        }
        let all = self.random.below(3) > 0;
        let step = match self.random.below(8) {
            0..=3 => {
                let split = self.world.setup.split_lookups && !all;
                let client = split.then_some(client);
                // Sets without promotions draw no further number: their walks stay the same.
                if self.world.left.promotions > 0 && self.random.below(2) == 0 {
                    let lags = self.random.below(2) == 0;
                    NamesStep::Promote { client, node, machine, lags }
                } else {
                    NamesStep::Move { client, node, machine }
                }
            }
            4 => NamesStep::Restart { node, machine, keeps_data: false },
            5 => NamesStep::Restart { node, machine, keeps_data: true },
            6 => NamesStep::Crash { client },
            _ => NamesStep::Cut { client, node },
        };
        self.apply(step);
    }

    fn lock_step(&mut self, client: usize, node: usize) {
        let step = match self.random.below(6) {
            0 => NamesStep::Attempt { client },
            1 => NamesStep::Raise { client },
            2 => NamesStep::RaiseVote { client, node },
            3 => NamesStep::Extend { client },
            4 => NamesStep::ExtendVote { client, node },
            _ => NamesStep::Vote { client, node },
        };
        self.apply(step);
    }

    fn order(&mut self) -> Vec<usize> {
        order(self.world.setup.names, &mut self.random)
    }

    /// Returns the nodes on which a client takes its locks, in any order.
    fn reached(&mut self, client: usize) -> Vec<usize> {
        let mut order = self.order();
        if self.random.below(8) > 0 {
            order.retain(|&node| self.habits[client].locks[node]);
        }
        order
    }

    /// An attempt from its start to its verdict.
    fn lock(&mut self, client: usize) {
        self.apply(NamesStep::Release { client, deletes: true });
        self.apply(NamesStep::Attempt { client });
        let order = self.reached(client);
        for &node in &order {
            self.apply(NamesStep::Vote { client, node });
        }
        if self.world.setup.plain {
            for &node in order.iter().chain(&order) {
                self.apply(NamesStep::Vote { client, node });
            }
        }
        self.apply(NamesStep::Raise { client });
        for node in order {
            self.apply(NamesStep::RaiseVote { client, node });
        }
    }

    fn work_step(&mut self, client: usize, node: usize) {
        let step = match self.random.below(6) {
            0 => NamesStep::Work { client },
            1 => NamesStep::BeginCopy { client, node },
            2 => NamesStep::CopyFrom { client, node },
            3 => NamesStep::EndCopy { client },
            _ => NamesStep::Ask { client, node },
        };
        self.apply(step);
    }

    /// Work under a lock, from its start to its end.
    fn work(&mut self, client: usize) {
        if !self.world.holds(client) {
            self.lock(client);
        }
        self.apply(NamesStep::Work { client });
        for _ in 0..2 {
            let all = self.random.below(2) == 0;
            let order = if all { self.order() } else { self.reached(client) };
            for node in order {
                self.apply(NamesStep::Ask { client, node });
            }
        }
    }

    fn copy(&mut self, client: usize, node: usize) {
        self.apply(NamesStep::BeginCopy { client, node });
        for node in self.order() {
            self.apply(NamesStep::CopyFrom { client, node });
        }
        self.apply(NamesStep::EndCopy { client });
    }

    fn renew(&mut self, client: usize) {
        self.apply(NamesStep::Extend { client });
        for node in self.reached(client) {
            self.apply(NamesStep::ExtendVote { client, node });
        }
    }

    fn look_at_all(&mut self, client: usize) {
        for node in self.order() {
            let driver = &self.world.drivers[client];
            if !self.habits[client].sticky
                || driver.conn[node].is_none()
                || driver.is_displaced(node)
            {
                self.apply(NamesStep::Open { client, node });
            }
            self.apply(NamesStep::Observe { client, node });
        }
    }

    /// Does all stores and merges that the client's reads call for.
    fn drive(&mut self, client: usize) {
        let mut order = self.order();
        if self.random.below(8) > 0 {
            order.retain(|&node| self.habits[client].drives[node]);
        }
        for into in order {
            self.apply(NamesStep::Reenrol { client, node: into });
            for of in self.order() {
                self.apply(NamesStep::Store { client, into, of });
            }
            self.apply(NamesStep::Merge { client, node: into });
        }
    }

    /// Does the activation that is due.
    fn finish(&mut self, client: usize) {
        for node in self.order() {
            self.apply(NamesStep::Begin { client, node });
        }
        for node in self.order() {
            self.apply(NamesStep::Fence { client, node });
        }
        self.apply(NamesStep::Activate { client });
    }
}

impl Model for NamesWorld {
    type Step = NamesStep;

    fn apply(&mut self, step: NamesStep) -> bool {
        self.apply(step)
    }

    fn violation(&self) -> Option<Violation> {
        self.violation
    }

    fn outline(&self) -> u64 {
        self.outline()
    }
}

impl ModelWalk for NamesWalk {
    type Model = NamesWorld;
    type Habits = [Habits; CLIENTS];

    const MAX_KEPT: usize = 40_000;

    fn draw_habits(world: &NamesWorld, random: &mut Random) -> [Habits; CLIENTS] {
        std::array::from_fn(|_| Habits::draw(world, random))
    }

    fn resume(from: &KeptState<Self>, is_start: bool, random: &mut Random) -> Self {
        let keeps = random.below(4) > 0 && !is_start;
        let walk = Self::new(from.model.clone(), keeps.then_some(from.habits), random.next());
        Self { trace: from.trace.clone(), ..walk }
    }

    fn step(&mut self) {
        let client = self.random.below(CLIENTS);
        let weights = self.weights[client];
        let kind = self.random.weighted(&weights);
        let node = self.random.below(self.world.setup.names);
        let other = self.random.below(self.world.setup.names);
        let machine = self.random.below(self.world.setup.machines);
        match kind {
            0 => self.apply(NamesStep::Tick),
            1 => self.disturb(client, node, machine),
            2 => self.apply(NamesStep::Open { client, node }),
            3 => self.apply(NamesStep::Observe { client, node }),
            4 => self.apply(NamesStep::Store { client, into: node, of: other }),
            5 => self.apply(NamesStep::Merge { client, node }),
            6 => self.apply(NamesStep::Begin { client, node }),
            7 => self.apply(NamesStep::Fence { client, node }),
            8 => self.apply(NamesStep::Activate { client }),
            9 => self.lock_step(client, node),
            10 => self.apply(NamesStep::Release { client, deletes: other != 0 }),
            11 => self.lock(client),
            12 => self.renew(client),
            13 => self.look_at_all(client),
            14 => self.drive(client),
            15 => self.finish(client),
            16 => self.work_step(client, node),
            _ if other == 0 => self.copy(client, node),
            _ => self.work(client),
        }
    }

    fn model(&self) -> &NamesWorld {
        &self.world
    }

    fn habits(&self) -> [Habits; CLIENTS] {
        self.habits
    }

    fn trace(&self) -> &Vec<NamesStep> {
        &self.trace
    }
}
