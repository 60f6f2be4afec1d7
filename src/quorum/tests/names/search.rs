//! Looks for violations: random walks with random weights, and shorter traces of what they find.

use std::collections::HashSet;

use super::world::{CLIENTS, NAMES, PerName, Setup, Step, Violation, World};

/// A generator of random numbers: the same seed, the same walk. Source: Steele et al.,
/// *Fast Splittable Pseudorandom Number Generators* (2014), `SplitMix64`.
#[derive(Clone, Debug)]
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, limit: usize) -> usize {
        usize::try_from((self.next() >> 32) * limit as u64 >> 32).expect("it is below the limit")
    }
}

/// How many kinds of moves a walk chooses from.
const KINDS: usize = 16;
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
struct Habits {
    /// Where it takes its locks.
    locks: PerName<bool>,
    /// Where it stores what it reads.
    drives: PerName<bool>,
    /// Whether it keeps its connections while it can.
    sticky: bool,
}

impl Habits {
    fn draw(world: &World, random: &mut Random) -> Self {
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
pub(super) struct Walk {
    pub(super) world: World,
    pub(super) trace: Vec<Step>,
    random: Random,
    weights: [[usize; KINDS]; CLIENTS],
    habits: [Habits; CLIENTS],
}

impl Walk {
    fn new(world: World, habits: Option<[Habits; CLIENTS]>, seed: u64) -> Self {
        let mut random = Random(seed);
        let mut weights = [[0; KINDS]; CLIENTS];
        for weight in weights.as_flattened_mut() {
            *weight = WEIGHTS[random.below(WEIGHTS.len())];
        }
        for weights in &mut weights {
            if !world.setup.locks {
                weights[9..=12].fill(0);
            }
            weights[0] = weights[0].max(1);
        }
        let habits =
            habits.unwrap_or_else(|| std::array::from_fn(|_| Habits::draw(&world, &mut random)));
        Self { world, trace: Vec::new(), random, weights, habits }
    }

    /// Takes up to `moves` moves; returns the violation that it comes to.
    pub(super) fn run(&mut self, moves: usize) -> Option<Violation> {
        for _ in 0..moves {
            self.step();
            if self.world.violation.is_some() {
                break;
            }
        }
        self.world.violation
    }

    fn step(&mut self) {
        let client = self.random.below(CLIENTS);
        let weights = self.weights[client];
        let mut at = self.random.below(weights.iter().sum());
        let kind = weights.iter().position(|&weight| {
            let found = at < weight;
            at = at.saturating_sub(weight);
            found
        });
        let node = self.random.below(self.world.setup.names);
        let other = self.random.below(self.world.setup.names);
        let machine = self.random.below(self.world.setup.machines);
        match kind.expect("it is below the sum") {
            0 => self.apply(Step::Tick),
            1 => self.disturb(client, node, machine),
            2 => self.apply(Step::Open { client, node }),
            3 => self.apply(Step::Look { client, node }),
            4 => self.apply(Step::Store { client, into: node, of: other }),
            5 => self.apply(Step::Merge { client, node }),
            6 => self.apply(Step::Begin { client, node }),
            7 => self.apply(Step::Fence { client, node }),
            8 => self.apply(Step::Activate { client }),
            9 => self.lock_step(client, node),
            10 => self.apply(Step::Release { client, deletes: other != 0 }),
            11 => self.lock(client),
            12 => self.renew(client),
            13 => self.look_at_all(client),
            14 => self.drive(client),
            _ => self.finish(client),
        }
    }

    pub(super) fn apply(&mut self, step: Step) {
        if self.world.violation.is_none() && self.world.apply(step) {
            self.trace.push(step);
        }
    }

    fn disturb(&mut self, client: usize, node: usize, machine: usize) {
        let all = self.random.below(3) > 0;
        let step = match self.random.below(8) {
            0..=3 => {
                let client = (!all || !self.world.setup.split_lookups).then_some(client);
                let client = if self.world.setup.split_lookups && !all { client } else { None };
                Step::Move { client, node, machine }
            }
            4 => Step::Restart { node, machine, keeps_data: false },
            5 => Step::Restart { node, machine, keeps_data: true },
            6 => Step::Crash { client },
            _ => Step::Cut { client, node },
        };
        self.apply(step);
    }

    fn lock_step(&mut self, client: usize, node: usize) {
        let step = match self.random.below(6) {
            0 => Step::Attempt { client },
            1 => Step::Raise { client },
            2 => Step::RaiseVote { client, node },
            3 => Step::Extend { client },
            4 => Step::ExtendVote { client, node },
            _ => Step::Vote { client, node },
        };
        self.apply(step);
    }

    fn order(&mut self) -> Vec<usize> {
        order(self.world.setup.names, &mut self.random)
    }

    /// The nodes on which a client takes its locks, in any order.
    fn reached(&mut self, client: usize) -> Vec<usize> {
        let mut order = self.order();
        if self.random.below(8) > 0 {
            order.retain(|&node| self.habits[client].locks[node]);
        }
        order
    }

    /// An attempt from its start to its verdict.
    fn lock(&mut self, client: usize) {
        self.apply(Step::Release { client, deletes: true });
        self.apply(Step::Attempt { client });
        let order = self.reached(client);
        for &node in &order {
            self.apply(Step::Vote { client, node });
        }
        self.apply(Step::Raise { client });
        for node in order {
            self.apply(Step::RaiseVote { client, node });
        }
    }

    fn renew(&mut self, client: usize) {
        self.apply(Step::Extend { client });
        for node in self.reached(client) {
            self.apply(Step::ExtendVote { client, node });
        }
    }

    fn look_at_all(&mut self, client: usize) {
        for node in self.order() {
            let driver = &self.world.drivers[client];
            if !self.habits[client].sticky || driver.conn[node].is_none() || driver.is_displaced(node) {
                self.apply(Step::Open { client, node });
            }
            self.apply(Step::Look { client, node });
        }
    }

    /// Does all stores and merges that the client's reads call for.
    fn drive(&mut self, client: usize) {
        let mut order = self.order();
        if self.random.below(8) > 0 {
            order.retain(|&node| self.habits[client].drives[node]);
        }
        for into in order {
            self.apply(Step::Reenrol { client, node: into });
            for of in self.order() {
                self.apply(Step::Store { client, into, of });
            }
            self.apply(Step::Merge { client, node: into });
        }
    }

    /// Does the activation that is due.
    fn finish(&mut self, client: usize) {
        for node in self.order() {
            self.apply(Step::Begin { client, node });
        }
        for node in self.order() {
            self.apply(Step::Fence { client, node });
        }
        self.apply(Step::Activate { client });
    }
}

/// What a search found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) violation: Violation,
    pub(super) trace: Vec<Step>,
}

/// A world that a walk came to, from which others go on.
struct Kept {
    world: World,
    trace: Vec<Step>,
    habits: [Habits; CLIENTS],
    visits: u32,
}

/// Walks that go on from where earlier ones came to something new.
pub(super) struct Search {
    setup: Setup,
    random: Random,
    kept: Vec<Kept>,
    seen: HashSet<u64>,
    pub(super) walks: u64,
    pub(super) steps: u64,
}

/// The most worlds that a search keeps.
const KEPT: usize = 40_000;

impl Search {
    pub(super) fn new(setup: Setup, seed: u64) -> Self {
        let world = World::new(setup);
        let mut random = Random(seed);
        let habits = std::array::from_fn(|_| Habits::draw(&world, &mut random));
        let start = Kept { world, trace: Vec::new(), habits, visits: 0 };
        Self { setup, random, kept: vec![start], seen: HashSet::new(), walks: 0, steps: 0 }
    }

    pub(super) fn outlines(&self) -> usize {
        self.seen.len()
    }

    /// Takes up to `walks` walks of `moves` moves.
    pub(super) fn run(&mut self, walks: u64, moves: usize) -> Option<Found> {
        (0..walks).find_map(|_| self.walk(moves))
    }

    fn walk(&mut self, moves: usize) -> Option<Found> {
        self.walks += 1;
        let [one, two] = [0; 2].map(|_| self.random.below(self.kept.len()));
        let from = if self.kept[one].visits <= self.kept[two].visits { one } else { two };
        self.kept[from].visits += 1;
        let Kept { world, trace, habits, .. } = &self.kept[from];
        let habits = (self.random.below(4) > 0 && from > 0).then_some(*habits);
        let mut walk = Walk::new(world.clone(), habits, self.random.next());
        walk.trace.clone_from(trace);
        for _ in 0..moves {
            let before = walk.trace.len();
            walk.step();
            self.steps += (walk.trace.len() - before) as u64;
            if let Some(violation) = walk.world.violation {
                return Some(Found { violation, trace: walk.trace });
            }
            if walk.trace.len() > before && self.seen.insert(walk.world.outline()) {
                self.keep(Kept {
                    world: walk.world.clone(),
                    trace: walk.trace.clone(),
                    habits: walk.habits,
                    visits: 0,
                });
            }
        }
        None
    }

    fn keep(&mut self, kept: Kept) {
        if self.kept.len() < KEPT {
            self.kept.push(kept);
            return;
        }
        let [one, two] = [0; 2].map(|_| 1 + self.random.below(KEPT - 1));
        let at = if self.kept[one].visits >= self.kept[two].visits { one } else { two };
        self.kept[at] = kept;
    }
}

fn replay(setup: Setup, steps: &[Step]) -> Option<Vec<Step>> {
    let mut world = World::new(setup);
    let mut taken = Vec::new();
    for &step in steps {
        if world.apply(step) {
            taken.push(step);
        }
        if world.violation.is_some() {
            return Some(taken);
        }
    }
    None
}

/// Leaves out steps while what remains still comes to a violation.
pub(super) fn shorten(setup: Setup, trace: &[Step]) -> Vec<Step> {
    let mut best = replay(setup, trace).expect("the trace comes to a violation");
    let mut size = best.len() / 2;
    loop {
        let mut at = 0;
        let before = best.len();
        while at < best.len() {
            let mut rest = best[..at].to_vec();
            rest.extend_from_slice(&best[(at + size.max(1)).min(best.len())..]);
            match replay(setup, &rest) {
                Some(shorter) if shorter.len() < best.len() => best = shorter,
                _ => at += size.max(1),
            }
        }
        if size <= 1 && best.len() == before {
            return best;
        }
        size /= 2;
    }
}

/// Regular looks of all clients, once nothing is disturbed any more; true once the set is whole.
pub(super) fn settles(mut world: World, ticks: usize) -> bool {
    world.left = super::world::Faults::default();
    let leads = world.leads[0];
    world.leads.fill(leads);
    // Somebody connects anew; the others learn of a move by what is stored.
    for node in world.names() {
        world.apply(Step::Open { client: 0, node });
    }
    for _ in 0..ticks {
        for _ in 0..2 {
            for client in 0..CLIENTS {
                for node in world.names() {
                    let driver = &world.drivers[client];
                    if driver.conn[node].is_none() || driver.is_displaced(node) {
                        world.apply(Step::Open { client, node });
                    }
                    world.apply(Step::Look { client, node });
                    world.apply(Step::Reenrol { client, node });
                }
                for into in world.names() {
                    for of in world.names() {
                        world.apply(Step::Store { client, into, of });
                    }
                    world.apply(Step::Merge { client, node: into });
                }
                for node in world.names() {
                    world.apply(Step::Look { client, node });
                }
                for node in world.names() {
                    world.apply(Step::Begin { client, node });
                    for of in world.names() {
                        world.apply(Step::Fence { client, node: of });
                    }
                    world.apply(Step::Activate { client });
                    world.apply(Step::Look { client, node });
                }
            }
        }
        if world.is_whole() {
            return true;
        }
        world.apply(Step::Tick);
    }
    world.is_whole()
}

impl Search {
    /// Whether the sets of all worlds that were kept become whole.
    pub(super) fn stuck(&self, ticks: usize) -> (usize, usize, Option<&[Step]>) {
        let stuck: Vec<_> =
            self.kept.iter().filter(|kept| !settles(kept.world.clone(), ticks)).collect();
        let shortest = stuck.iter().min_by_key(|kept| kept.trace.len());
        (stuck.len(), self.kept.len(), shortest.map(|kept| &kept.trace[..]))
    }
}
