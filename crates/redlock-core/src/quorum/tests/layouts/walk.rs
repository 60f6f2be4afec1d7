//! Random walks over layouts.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    mem::swap,
};

use super::{
    state::{LayoutPlan, Layouts},
    step::LayoutStep,
};
use crate::quorum::tests::{
    names::{
        step::{NamesStep, Violation},
        walk::NamesWalk,
        world::CLIENTS,
    },
    search::{self, KeptState, Model, ModelWalk, Random},
};

/// Kinds of moves: ticks, faults, operators' steps, their usual series, takeovers, turns of a
/// client, and single steps of the clients of each layout.
const KINDS: usize = 7;
const WEIGHTS: [usize; 5] = [1, 2, 4, 8, 16];

#[derive(Debug)]
struct LayoutsWalk {
    layouts: Layouts,
    trace: Vec<LayoutStep>,
    random: Random,
    weights: [usize; KINDS],
    /// The walks of the clients of each layout. Their worlds are swapped in for a move.
    walks: Vec<NamesWalk>,
}

impl LayoutsWalk {
    fn new(layouts: Layouts, trace: Vec<LayoutStep>, seed: u64) -> Self {
        let mut random = Random(seed);
        let mut weights = [0; KINDS].map(|_| WEIGHTS[random.below(WEIGHTS.len())]);
        weights[KINDS - 1] = 16;
        let walk = |world| NamesWalk::new(world, None, random.next());
        let walks = layouts.worlds.clone().into_iter().map(walk).collect();
        Self { layouts, trace, random, weights, walks }
    }

    fn apply(&mut self, step: LayoutStep) {
        if self.layouts.violation.is_none() && self.layouts.apply(step) {
            self.trace.push(step);
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
        let steps = walk.trace.drain(..).map(|step| LayoutStep::In { layout, step });
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
        let step = match self.random.below(8) {
            0..=3 => LayoutStep::Move { of, name, machine },
            4 => LayoutStep::Restart { name, machine, keeps_data: false },
            5 => LayoutStep::Restart { name, machine, keeps_data: true },
            6 => LayoutStep::In { layout, step: NamesStep::Crash { client } },
            _ => LayoutStep::In { layout, step: NamesStep::Cut { client, node } },
        };
        self.apply(step);
    }

    fn operate(&mut self, operator: usize) {
        let [old, new] = self.sizes(operator);
        let step = match self.random.below(4) {
            0 => LayoutStep::TakeOld { operator, node: self.random.below(old) },
            1 => LayoutStep::Proceed { operator },
            2 => LayoutStep::TakeNew { operator, node: self.random.below(new) },
            _ => {
                let plan = self.random.below(self.layouts.plan.moves.len());
                LayoutStep::LeaseCommand { operator, plan }
            }
        };
        self.apply(step);
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
            self.apply(LayoutStep::LeaseCommand { operator, plan });
        }
        let [old, new] = self.sizes(operator);
        for node in 0..old {
            if self.random.below(3) > 0 {
                self.apply(LayoutStep::TakeOld { operator, node });
            }
        }
        self.apply(LayoutStep::Proceed { operator });
        for node in 0..new {
            if self.random.below(4) > 0 {
                self.apply(LayoutStep::TakeNew { operator, node });
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
                self.apply(LayoutStep::Tick);
            }
        }
    }

    fn turn(&mut self, layout: usize, client: usize, names: &[usize], opens: bool) {
        for &node in names {
            let driver = &self.layouts.worlds[layout].drivers[client];
            if opens || driver.conn[node].is_none() || driver.is_displaced(node) {
                self.apply(LayoutStep::In { layout, step: NamesStep::Open { client, node } });
            }
            self.apply(LayoutStep::In { layout, step: NamesStep::Observe { client, node } });
            self.apply(LayoutStep::In { layout, step: NamesStep::Reenrol { client, node } });
        }
        for &into in names {
            for &of in names {
                self.apply(LayoutStep::In { layout, step: NamesStep::Store { client, into, of } });
            }
            self.apply(LayoutStep::In { layout, step: NamesStep::Merge { client, node: into } });
        }
        for &node in names {
            self.apply(LayoutStep::In { layout, step: NamesStep::Observe { client, node } });
        }
        for &node in names {
            let begun = LayoutStep::In { layout, step: NamesStep::Begin { client, node } };
            let before = self.trace.len();
            self.apply(begun);
            if self.trace.len() > before {
                for &node in names {
                    self.apply(LayoutStep::In { layout, step: NamesStep::Fence { client, node } });
                }
                self.apply(LayoutStep::In { layout, step: NamesStep::Activate { client } });
            }
        }
    }

    fn take_over(&mut self, layout: usize, client: usize) {
        if !self.layouts.plan.takeover {
            return;
        }
        for node in 0..self.layouts.plan.layouts[layout].len() {
            let step = match self.random.below(3) {
                0 => LayoutStep::TakeOver { layout, client, node },
                1 => LayoutStep::StartMoved { layout, client, node },
                _ => LayoutStep::In { layout, step: NamesStep::Observe { client, node } },
            };
            self.apply(step);
        }
    }
}

impl Model for Layouts {
    type Step = LayoutStep;

    fn apply(&mut self, step: LayoutStep) -> bool {
        self.apply(step)
    }

    fn violation(&self) -> Option<Violation> {
        self.violation
    }

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

    fn has_later_layout(&self) -> bool {
        self.worlds[1..].iter().any(|world| !world.present_groups().is_empty())
    }
}

impl ModelWalk for LayoutsWalk {
    type Model = Layouts;
    type Habits = ();

    const MAX_KEPT: usize = 20_000;

    fn draw_habits(_: &Layouts, _: &mut Random) {}

    fn resume(from: &KeptState<Self>, _: bool, random: &mut Random) -> Self {
        Self::new(from.model.clone(), from.trace.clone(), random.next())
    }

    fn step(&mut self) {
        let kind = self.random.weighted(&self.weights);
        let layout = self.random.below(self.layouts.worlds.len());
        let client = self.random.below(CLIENTS);
        match kind {
            0 => self.apply(LayoutStep::Tick),
            1 => self.disturb(layout, client),
            2 => self.operate(client),
            3 => self.command(client),
            4 => self.take_over(layout, client),
            5 => self.turns(layout, client),
            _ => self.clients(layout),
        }
    }

    fn model(&self) -> &Layouts {
        &self.layouts
    }

    fn habits(&self) {}

    fn trace(&self) -> &Vec<LayoutStep> {
        &self.trace
    }
}

/// Searches a plan with each seed in turn. Returns the first violation, and a short trace to it.
pub(super) fn search(plan: LayoutPlan, walks: u64) -> Option<(Violation, Vec<LayoutStep>)> {
    let watched = if plan.setup.locks { "locks" } else { "groups" };
    let label = format!("{:?}, {watched}, without {:?}", plan.layouts, plan.setup.without);
    search::search::<LayoutsWalk>(&Layouts::new(plan), walks, &label)
}

/// Takes the steps, each of which must be possible. Returns the violation that they reach.
pub(super) fn run(plan: LayoutPlan, steps: &[LayoutStep]) -> Option<Violation> {
    search::run(Layouts::new(plan), steps)
}
