//! Random walks over layouts, and searches that go on from new states.

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash, Hasher},
    mem::swap,
};

use super::{
    event::Event,
    state::{Layouts, Plan},
};
use crate::quorum::tests::names::{
    cases::{MOVES, SEEDS, factor},
    search::shorten_by,
    step::{Step, Violation},
    walk::{Random, Walk},
    world::{CLIENTS, World},
};

/// Kinds of moves: ticks, faults, operators' steps, their usual series, takeovers, turns of a client,
/// and single steps of the clients of each layout.
const KINDS: usize = 7;
const WEIGHTS: [usize; 5] = [1, 2, 4, 8, 16];

#[derive(Debug)]
struct LayoutsWalk {
    layouts: Layouts,
    trace: Vec<Event>,
    random: Random,
    weights: [usize; KINDS],
    /// Of the clients of each layout; their worlds are swapped in for a move.
    walks: Vec<Walk>,
}

impl LayoutsWalk {
    fn new(layouts: Layouts, trace: Vec<Event>, seed: u64) -> Self {
        let mut random = Random(seed);
        let mut weights = [0; KINDS].map(|_| WEIGHTS[random.below(WEIGHTS.len())]);
        weights[KINDS - 1] = 16;
        let walk = |world| Walk::new(world, None, random.next());
        let walks = layouts.worlds.clone().into_iter().map(walk).collect();
        Self { layouts, trace, random, weights, walks }
    }

    fn step(&mut self) {
        let mut at = self.random.below(self.weights.iter().sum());
        let kind = self.weights.iter().position(|&weight| {
            let found = at < weight;
            at = at.saturating_sub(weight);
            found
        });
        let layout = self.random.below(self.layouts.worlds.len());
        let client = self.random.below(CLIENTS);
        match kind.expect("it is below the sum") {
            0 => self.apply(Event::Tick),
            1 => self.disturb(layout, client),
            2 => self.operate(client),
            3 => self.command(client),
            4 => self.take_over(layout, client),
            5 => self.turns(layout, client),
            _ => self.clients(layout),
        }
    }

    fn apply(&mut self, event: Event) {
        if self.layouts.violation.is_none() && self.layouts.apply(event) {
            self.trace.push(event);
        }
    }

    /// A move of a layout's clients.
    fn clients(&mut self, layout: usize) {
        if self.layouts.started & 1 << layout == 0 {
            return;
        }
        let (walk, world) = (&mut self.walks[layout], &mut self.layouts.worlds[layout]);
        swap(&mut walk.world, world);
        walk.step();
        swap(&mut walk.world, world);
        let steps = walk.trace.drain(..).map(|step| Event::In { layout, step });
        let before = self.trace.len();
        self.trace.extend(steps);
        if self.trace.len() > before {
            self.layouts.share(layout);
            self.layouts.watch();
        }
    }

    fn disturb(&mut self, layout: usize, client: usize) {
        let plan = self.layouts.plan;
        let names = plan.layouts[layout];
        let node = self.random.below(names.len());
        let (name, machine) = (names[node], self.random.below(plan.setup.machines));
        let of = (self.random.below(3) == 0).then_some((layout, client));
        let event = match self.random.below(8) {
            0..=3 => Event::Move { of, name, machine },
            4 => Event::Restart { name, machine, keeps_data: false },
            5 => Event::Restart { name, machine, keeps_data: true },
            6 => Event::In { layout, step: Step::Crash { client } },
            _ => Event::In { layout, step: Step::Cut { client, node } },
        };
        self.apply(event);
    }

    fn operate(&mut self, operator: usize) {
        let [old, new] = self.sizes(operator);
        let event = match self.random.below(4) {
            0 => Event::TakeOld { operator, node: self.random.below(old) },
            1 => Event::GoOn { operator },
            2 => Event::TakeNew { operator, node: self.random.below(new) },
            _ => {
                let plan = self.random.below(self.layouts.plan.moves.len());
                Event::Command { operator, plan }
            }
        };
        self.apply(event);
    }

    fn sizes(&self, operator: usize) -> [usize; 2] {
        let command = &self.layouts.operators[operator];
        [command.from, command.to].map(|layout| self.layouts.plan.layouts[layout].len())
    }

    /// A command, as far as it gets: some servers are not reached.
    fn command(&mut self, operator: usize) {
        let idle = self.layouts.operators[operator].from == self.layouts.operators[operator].to;
        if idle || self.random.below(8) == 0 {
            let plan = self.random.below(self.layouts.plan.moves.len());
            self.apply(Event::Command { operator, plan });
        }
        let [old, new] = self.sizes(operator);
        for node in 0..old {
            if self.random.below(3) > 0 {
                self.apply(Event::TakeOld { operator, node });
            }
        }
        self.apply(Event::GoOn { operator });
        for node in 0..new {
            if self.random.below(4) > 0 {
                self.apply(Event::TakeNew { operator, node });
            }
        }
    }

    /// A client looks at its servers, tells them of each other, and activates what is due.
    fn turns(&mut self, layout: usize, client: usize) {
        let mut names: Vec<_> = (0..self.layouts.plan.layouts[layout].len()).collect();
        if self.random.below(2) == 0 {
            names.remove(self.random.below(names.len()));
        }
        let opens = self.random.below(4) == 0;
        for _ in 0..=self.random.below(6) {
            self.turn(layout, client, &names, opens);
            if self.random.below(4) > 0 {
                self.apply(Event::Tick);
            }
        }
    }

    fn turn(&mut self, layout: usize, client: usize, names: &[usize], opens: bool) {
        for &node in names {
            let driver = &self.layouts.worlds[layout].drivers[client];
            if opens || driver.conn[node].is_none() || driver.is_displaced(node) {
                self.apply(Event::In { layout, step: Step::Open { client, node } });
            }
            self.apply(Event::In { layout, step: Step::Look { client, node } });
            self.apply(Event::In { layout, step: Step::Reenrol { client, node } });
        }
        for &into in names {
            for &of in names {
                self.apply(Event::In { layout, step: Step::Store { client, into, of } });
            }
            self.apply(Event::In { layout, step: Step::Merge { client, node: into } });
        }
        for &node in names {
            self.apply(Event::In { layout, step: Step::Look { client, node } });
        }
        for &node in names {
            let begun = Event::In { layout, step: Step::Begin { client, node } };
            let before = self.trace.len();
            self.apply(begun);
            if self.trace.len() > before {
                for &node in names {
                    self.apply(Event::In { layout, step: Step::Fence { client, node } });
                }
                self.apply(Event::In { layout, step: Step::Activate { client } });
            }
        }
    }

    fn take_over(&mut self, layout: usize, client: usize) {
        if !self.layouts.plan.takeover {
            return;
        }
        for node in 0..self.layouts.plan.layouts[layout].len() {
            let event = match self.random.below(3) {
                0 => Event::TakeOver { layout, client, node },
                1 => Event::StartMoved { layout, client, node },
                _ => Event::In { layout, step: Step::Look { client, node } },
            };
            self.apply(event);
        }
    }
}

impl Layouts {
    fn outline(&self) -> u64 {
        let mut hash = DefaultHasher::new();
        self.worlds.iter().for_each(|world| hash.write_u64(world.outline()));
        for operator in &self.operators {
            (operator.from, operator.to, operator.taken).hash(&mut hash);
            (operator.enough, operator.restarted).hash(&mut hash);
        }
        self.tags.iter().for_each(|tag| tag.map(|tag| tag.layout).hash(&mut hash));
        hash.finish()
    }
}

struct Kept {
    layouts: Layouts,
    trace: Vec<Event>,
    visits: u32,
}

/// The most states that a search keeps.
const KEPT: usize = 20_000;

struct Search {
    random: Random,
    kept: Vec<Kept>,
    seen: HashSet<u64>,
    steps: u64,
    /// States in which a later layout could grant a lock.
    begun: u64,
}

impl Search {
    fn walk(&mut self) -> Option<(Violation, Vec<Event>)> {
        let [one, two] = [0; 2].map(|_| self.random.below(self.kept.len()));
        let from = if self.kept[one].visits <= self.kept[two].visits { one } else { two };
        self.kept[from].visits += 1;
        let Kept { layouts, trace, .. } = &self.kept[from];
        let mut walk = LayoutsWalk::new(layouts.clone(), trace.clone(), self.random.next());
        for _ in 0..MOVES {
            let before = walk.trace.len();
            walk.step();
            self.steps += (walk.trace.len() - before) as u64;
            if let Some(violation) = walk.layouts.violation {
                return Some((violation, walk.trace));
            }
            if walk.trace.len() > before && self.seen.insert(walk.layouts.outline()) {
                let later = walk.layouts.worlds[1..].iter();
                let begun = later.map(World::present_groups).any(|groups| !groups.is_empty());
                self.begun += u64::from(begun);
                let kept =
                    Kept { layouts: walk.layouts.clone(), trace: walk.trace.clone(), visits: 0 };
                self.keep(kept);
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

fn replay(plan: Plan, events: &[Event]) -> Option<Vec<Event>> {
    let mut layouts = Layouts::new(plan);
    let mut taken = Vec::new();
    for &event in events {
        if layouts.apply(event) {
            taken.push(event);
        }
        if layouts.violation.is_some() {
            return Some(taken);
        }
    }
    None
}

/// Searches with each seed in turn for `walks` walks, times the factor; returns the first violation.
pub(super) fn search(plan: Plan, walks: u64) -> Option<(Violation, Vec<Event>)> {
    SEEDS.iter().find_map(|&seed| {
        let start = Kept { layouts: Layouts::new(plan), trace: Vec::new(), visits: 0 };
        let kept = vec![start];
        let mut search = Search { random: Random(seed), kept, seen: HashSet::new(), steps: 0, begun: 0 };
        let mut taken = 0;
        let found = (0..walks * factor()).find_map(|_| {
            taken += 1;
            search.walk()
        });
        let found =
            found.map(|found| (found.0, shorten_by(&found.1, |events| replay(plan, events))));
        println!(
            "{:?}, {}, without {:?}, seed {seed}: {:?} after {taken} walks, {} steps, {} states ({} begun); \
             shortest trace: {:?} steps",
            plan.layouts,
            if plan.setup.locks { "locks" } else { "groups" },
            plan.setup.without,
            found.as_ref().map(|found| found.0),
            search.steps,
            search.seen.len(),
            search.begun,
            found.as_ref().map(|found| found.1.len()),
        );
        found
    })
}

/// Does the steps, each of which must be possible; returns the violation that they come to.
pub(super) fn run(plan: Plan, events: &[Event]) -> Option<Violation> {
    let mut layouts = Layouts::new(plan);
    for (at, &event) in events.iter().enumerate() {
        assert!(layouts.violation.is_none(), "a violation before step {at}: {event:?}");
        assert!(layouts.apply(event), "step {at} does nothing: {event:?}");
    }
    layouts.violation
}
