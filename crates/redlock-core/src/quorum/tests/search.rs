//! Searches for violations in a model: random walks that continue from new states, and shorter
//! traces of what they find.

use std::{collections::HashSet, fmt::Debug};

use super::names::step::Violation;

/// Moves that a walk chooses.
pub(super) const MOVES: usize = 20;
/// The seeds of each search.
pub(super) const SEEDS: [u64; 3] = [1, 2, 3];

/// Returns the factor by which the environment asks for more walks.
pub(super) fn factor() -> u64 {
    let factor = std::env::var("NAMES_WALKS").ok();
    factor.map_or(1, |factor| factor.parse().expect("NAMES_WALKS is a whole number"))
}

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
        usize::try_from(((self.next() >> 32) * limit as u64) >> 32).expect("it is below the limit")
    }

    /// Chooses an index with a probability in proportion to its weight.
    pub(super) fn weighted(&mut self, weights: &[usize]) -> usize {
        let mut at = self.below(weights.iter().sum());
        let chosen = weights.iter().position(|&weight| {
            let found = at < weight;
            at = at.saturating_sub(weight);
            found
        });
        chosen.expect("it is below the sum")
    }
}

/// The state that is searched.
pub(super) trait Model: Clone {
    type Step: Copy + Debug;

    /// Takes a step. Returns whether the step was possible.
    fn apply(&mut self, step: Self::Step) -> bool;

    /// Returns the first violation.
    fn violation(&self) -> Option<Violation>;

    /// A hash that is equal for states that are alike.
    fn outline(&self) -> u64;

    /// Returns whether a layout beyond the first could grant a lock.
    fn has_later_layout(&self) -> bool {
        false
    }
}

/// A random walk over the states of a model.
pub(super) trait ModelWalk: Sized {
    type Model: Model;
    /// What a later walk from the same state may take over.
    type Habits: Copy;

    /// Maximum number of states that a search keeps.
    const MAX_KEPT: usize;

    fn draw_habits(model: &Self::Model, random: &mut Random) -> Self::Habits;

    /// Continues from a kept state; `is_start` for the start of the search.
    fn resume(from: &KeptState<Self>, is_start: bool, random: &mut Random) -> Self;

    /// Takes the steps of one move.
    fn step(&mut self);

    fn model(&self) -> &Self::Model;
    fn habits(&self) -> Self::Habits;
    /// Returns the steps from the start of the search.
    fn trace(&self) -> &Trace<Self>;
}

pub(super) type Trace<W> = Vec<<<W as ModelWalk>::Model as Model>::Step>;

/// A state that a walk reached, from which others continue.
pub(super) struct KeptState<W: ModelWalk> {
    pub(super) model: W::Model,
    pub(super) trace: Trace<W>,
    pub(super) habits: W::Habits,
    visits: u32,
}

/// Walks that continue from new states of earlier ones.
pub(super) struct Search<W: ModelWalk> {
    random: Random,
    pub(super) kept: Vec<KeptState<W>>,
    seen: HashSet<u64>,
    walks: u64,
    steps: u64,
    /// New states with a later layout.
    later: u64,
}

impl<W: ModelWalk> Search<W> {
    pub(super) fn new(model: W::Model, seed: u64) -> Self {
        let mut random = Random(seed);
        let habits = W::draw_habits(&model, &mut random);
        let start = KeptState { model, trace: Vec::new(), habits, visits: 0 };
        Self { random, kept: vec![start], seen: HashSet::new(), walks: 0, steps: 0, later: 0 }
    }

    /// Takes up to `walks` walks, times the factor. Returns the first violation and its trace.
    pub(super) fn run(&mut self, walks: u64) -> Option<(Violation, Trace<W>)> {
        (0..walks * factor()).find_map(|_| self.walk())
    }

    fn walk(&mut self) -> Option<(Violation, Trace<W>)> {
        self.walks += 1;
        let [one, two] = [0; 2].map(|_| self.random.below(self.kept.len()));
        let from = if self.kept[one].visits <= self.kept[two].visits { one } else { two };
        self.kept[from].visits += 1;
        let mut walk = W::resume(&self.kept[from], from == 0, &mut self.random);
        for _ in 0..MOVES {
            let before = walk.trace().len();
            walk.step();
            self.steps += (walk.trace().len() - before) as u64;
            let model = walk.model();
            if let Some(violation) = model.violation() {
                return Some((violation, walk.trace().clone()));
            }
            if walk.trace().len() > before && self.seen.insert(model.outline()) {
                self.later += u64::from(model.has_later_layout());
                let (model, trace) = (model.clone(), walk.trace().clone());
                self.keep(KeptState { model, trace, habits: walk.habits(), visits: 0 });
            }
        }
        None
    }

    fn keep(&mut self, kept: KeptState<W>) {
        if self.kept.len() < W::MAX_KEPT {
            self.kept.push(kept);
            return;
        }
        let [one, two] = [0; 2].map(|_| 1 + self.random.below(W::MAX_KEPT - 1));
        let at = if self.kept[one].visits >= self.kept[two].visits { one } else { two };
        self.kept[at] = kept;
    }
}

/// Searches with each seed in turn. Returns the first violation, and a short trace to it.
pub(super) fn search<W: ModelWalk>(
    start: &W::Model,
    walks: u64,
    label: &str,
) -> Option<(Violation, Trace<W>)> {
    SEEDS.iter().find_map(|&seed| {
        let mut search = Search::<W>::new(start.clone(), seed);
        let found = search.run(walks);
        let found = found.map(|(violation, trace)| (violation, shorten(start, &trace)));
        println!(
            "{label}, seed {seed}: {:?} after {} walks, {} steps, {} states ({} with a later \
             layout); shortest trace: {:?} steps",
            found.as_ref().map(|found| found.0),
            search.walks,
            search.steps,
            search.seen.len(),
            search.later,
            found.as_ref().map(|found| found.1.len()),
        );
        found
    })
}

/// Takes the steps, each of which must be possible. Returns the violation that they reach.
pub(super) fn run<M: Model>(mut model: M, steps: &[M::Step]) -> Option<Violation> {
    for (at, &step) in steps.iter().enumerate() {
        assert!(model.violation().is_none(), "a violation before step {at}: {step:?}");
        assert!(model.apply(step), "step {at} does nothing: {step:?}");
    }
    model.violation()
}

/// Returns the possible ones of the steps, up to a violation; `None` if they reach none.
fn replay<M: Model>(start: &M, steps: &[M::Step]) -> Option<Vec<M::Step>> {
    let mut model = start.clone();
    let mut taken = Vec::new();
    for &step in steps {
        if model.apply(step) {
            taken.push(step);
        }
        if model.violation().is_some() {
            return Some(taken);
        }
    }
    None
}

/// Removes steps while the rest still reaches a violation.
pub(super) fn shorten<M: Model>(start: &M, trace: &[M::Step]) -> Vec<M::Step> {
    let mut best = replay(start, trace).expect("the trace reaches a violation");
    let mut size = best.len() / 2;
    loop {
        let mut at = 0;
        let before = best.len();
        while at < best.len() {
            let mut rest = best[..at].to_vec();
            rest.extend_from_slice(&best[(at + size.max(1)).min(best.len())..]);
            match replay(start, &rest) {
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
