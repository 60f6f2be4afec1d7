//! The samples that the bench targets pass to the report: one result of one measurement per line.

use std::collections::HashMap;

use crate::spread::Spread;

/// Prints a result of one contestant in one case, such as 64 tasks over five servers.
pub(crate) fn emit(case: &str, who: &str, what: &str, value: f64) {
    println!("{case}\t{who}\t{what}\t{value:e}");
}

/// The case and contestant of values about the machine, and their quantity.
pub(crate) const MACHINE: &str = "machine";
pub(crate) const CORES: &str = "cores";

/// Prints a note about all measurements.
pub(crate) fn note(text: &str) {
    println!("{text}");
}

/// Identifies values by the case, the contestant and the quantity.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key(String, String, String);

pub(crate) fn key(case: impl Into<String>, who: &str, what: &str) -> Key {
    Key(case.into(), who.into(), what.into())
}

/// All values by their keys, in the order of the rounds.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    pub(crate) notes: Vec<String>,
    values: HashMap<Key, Vec<f64>>,
}

impl Samples {
    /// # Panics
    ///
    /// If a line is not a sample.
    pub(crate) fn read(text: &str) -> Self {
        let mut samples = Self::default();
        for line in text.lines() {
            let mut fields = line.split('\t');
            match [(); 4].map(|()| fields.next()) {
                [Some(case), Some(who), Some(what), Some(value)] => {
                    let value = value.parse().expect("a number");
                    samples.values.entry(key(case, who, what)).or_default().push(value);
                }
                [Some(note), None, ..] => samples.notes.push(note.into()),
                _ => panic!("not a sample: {line}"),
            }
        }
        samples
    }

    fn of(&self, key: &Key) -> &[f64] {
        self.values.get(key).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn spread(&self, key: &Key) -> Option<Spread> {
        Spread::of(self.of(key).to_vec())
    }

    /// Returns the ratio round by round, as a slow round affects both values.
    pub(crate) fn ratio(&self, upper: &Key, lower: &Key) -> Option<Spread> {
        self.by_round(upper, lower, |upper, lower| upper / lower)
    }

    /// Returns the difference round by round.
    pub(crate) fn difference(&self, upper: &Key, lower: &Key) -> Option<Spread> {
        self.by_round(upper, lower, |upper, lower| upper - lower)
    }

    fn by_round(&self, a: &Key, b: &Key, of: impl Fn(f64, f64) -> f64) -> Option<Spread> {
        Spread::of(self.of(a).iter().zip(self.of(b)).map(|(a, b)| of(*a, *b)).collect())
    }

    /// Returns the sum over all cases.
    pub(crate) fn total(&self, who: &str, what: &str) -> Option<f64> {
        let of = |key: &&Key| key.1 == who && key.2 == what;
        let mut found = self.values.keys().filter(of).peekable();
        found.peek()?;
        Some(found.flat_map(|key| self.of(key)).sum())
    }
}
