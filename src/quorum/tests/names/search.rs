//! Looks for violations: walks that go on from new states, and shorter traces of what they find.

use std::collections::HashSet;

use super::{
    step::{NamesStep, Violation},
    walk::{Habits, NamesWalk, Random},
    world::{CLIENTS, NamesSetup, NamesWorld},
};

/// What a search found.
#[derive(Debug)]
pub(crate) struct FoundViolation {
    pub(crate) violation: Violation,
    pub(crate) trace: Vec<NamesStep>,
}

/// A world that a walk came to, from which others go on.
pub(crate) struct KeptWorld {
    pub(crate) world: NamesWorld,
    pub(crate) trace: Vec<NamesStep>,
    habits: [Habits; CLIENTS],
    visits: u32,
}

/// Walks that go on from where earlier ones came to something new.
pub(crate) struct NamesSearch {
    random: Random,
    pub(crate) kept: Vec<KeptWorld>,
    seen: HashSet<u64>,
    pub(crate) walks: u64,
    pub(crate) steps: u64,
}

/// The most worlds that a search keeps.
const KEPT: usize = 40_000;

impl NamesSearch {
    pub(crate) fn new(setup: NamesSetup, seed: u64) -> Self {
        let world = NamesWorld::new(setup);
        let mut random = Random(seed);
        let habits = std::array::from_fn(|_| Habits::draw(&world, &mut random));
        let start = KeptWorld { world, trace: Vec::new(), habits, visits: 0 };
        Self { random, kept: vec![start], seen: HashSet::new(), walks: 0, steps: 0 }
    }

    pub(crate) fn outlines(&self) -> usize {
        self.seen.len()
    }

    /// Takes up to `walks` walks of `moves` moves.
    pub(crate) fn run(&mut self, walks: u64, moves: usize) -> Option<FoundViolation> {
        (0..walks).find_map(|_| self.walk(moves))
    }

    fn walk(&mut self, moves: usize) -> Option<FoundViolation> {
        self.walks += 1;
        let [one, two] = [0; 2].map(|_| self.random.below(self.kept.len()));
        let from = if self.kept[one].visits <= self.kept[two].visits { one } else { two };
        self.kept[from].visits += 1;
        let KeptWorld { world, trace, habits, .. } = &self.kept[from];
        let habits = (self.random.below(4) > 0 && from > 0).then_some(*habits);
        let mut walk = NamesWalk::new(world.clone(), habits, self.random.next());
        walk.trace.clone_from(trace);
        for _ in 0..moves {
            let before = walk.trace.len();
            walk.step();
            self.steps += (walk.trace.len() - before) as u64;
            if let Some(violation) = walk.world.violation {
                return Some(FoundViolation { violation, trace: walk.trace });
            }
            if walk.trace.len() > before && self.seen.insert(walk.world.outline()) {
                self.keep(KeptWorld {
                    world: walk.world.clone(),
                    trace: walk.trace.clone(),
                    habits: walk.habits,
                    visits: 0,
                });
            }
        }
        None
    }

    fn keep(&mut self, kept: KeptWorld) {
        if self.kept.len() < KEPT {
            self.kept.push(kept);
            return;
        }
        let [one, two] = [0; 2].map(|_| 1 + self.random.below(KEPT - 1));
        let at = if self.kept[one].visits >= self.kept[two].visits { one } else { two };
        self.kept[at] = kept;
    }
}

fn replay(setup: NamesSetup, steps: &[NamesStep]) -> Option<Vec<NamesStep>> {
    let mut world = NamesWorld::new(setup);
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
pub(crate) fn shorten(setup: NamesSetup, trace: &[NamesStep]) -> Vec<NamesStep> {
    shorten_by(trace, |steps| replay(setup, steps))
}

/// `replay` returns the steps that were taken, if they come to a violation.
pub(crate) fn shorten_by<S: Copy>(trace: &[S], replay: impl Fn(&[S]) -> Option<Vec<S>>) -> Vec<S> {
    let mut best = replay(trace).expect("the trace comes to a violation");
    let mut size = best.len() / 2;
    loop {
        let mut at = 0;
        let before = best.len();
        while at < best.len() {
            let mut rest = best[..at].to_vec();
            rest.extend_from_slice(&best[(at + size.max(1)).min(best.len())..]);
            match replay(&rest) {
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
