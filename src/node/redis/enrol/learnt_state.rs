//! The state that a node learns from other nodes before it votes.

use std::{collections::BTreeMap, time::Duration};

use ::redis::Value;

use super::{Tag, node_report::leading_number};
use crate::{
    node::redis::{
        claim_text,
        values::{score, text},
    },
    stripe::STRIPES,
};

/// The state that a node has to learn before it votes.
#[derive(Clone, Debug, Default)]
pub(super) struct LearntState {
    /// The fences by stripe.
    pub(super) fences: BTreeMap<usize, u64>,
    /// The marks of jobs. Each value begins with a number. The greatest number wins; of claims with
    /// one token, the last one.
    pub(super) marks: BTreeMap<String, String>,
    pub(super) floor: u64,
    pub(super) max_ttl: Duration,
    /// The value of `max_ttl` before it was lowered; locks with that TTL may still be held.
    pub(super) previous_max_ttl: Duration,
    /// The layout that the node was moved from, and the view under which it voted there; not
    /// merged.
    pub(super) left: Option<(String, String)>,
}

impl LearntState {
    pub(super) fn merge(&mut self, other: Self) {
        for (stripe, fence) in other.fences {
            let known = self.fences.entry(stripe).or_default();
            *known = fence.max(*known);
        }
        for (name, mark) in other.marks {
            let known = self.marks.entry(name).or_default();
            if order(&mark) > order(known) || known.is_empty() {
                *known = mark;
            }
        }
        self.floor = self.floor.max(other.floor);
        self.max_ttl = self.max_ttl.max(other.max_ttl);
        self.previous_max_ttl = self.previous_max_ttl.max(other.previous_max_ttl);
    }

    /// Returns the longest TTL of any lock that may still be held.
    pub(super) fn longest(&self) -> Duration {
        self.max_ttl.max(self.previous_max_ttl)
    }

    /// Parses stripes and their fences.
    pub(super) fn learn_fences(&mut self, fences: &Value) {
        for (field, value) in pairs(fences) {
            let number = score(&value).unwrap_or(0);
            if let Some(stripe) = stripe_of(&field).filter(|_| number > 0) {
                self.fences.insert(stripe, number);
            }
        }
    }

    /// Parses a meta hash.
    pub(super) fn of_meta(meta: &Value) -> (Option<Tag>, Self) {
        let mut known = Self::default();
        let mut tag = None;
        let mut left = (None, String::new());
        for (field, value) in pairs(meta) {
            let number = value.parse().unwrap_or(0);
            match field.as_str() {
                "tag" => tag = Some(Tag::new(value)),
                "from" => left.0 = Some(value),
                "left" => left.1 = value,
                "floor" => known.floor = number,
                "max_ttl" => known.max_ttl = Duration::from_millis(number),
                // The previous limit in milliseconds, and the client that lowers it.
                "longer" => known.previous_max_ttl = Duration::from_millis(leading_number(&value)),
                _ => {}
            }
        }
        known.left = left.0.map(|from| (from, left.1));
        (tag, known)
    }
}

/// Parses a stripe in its canonical form, as the field goes to another server under this name.
fn stripe_of(field: &str) -> Option<usize> {
    let stripe = field.parse::<usize>().ok()?;
    (stripe < STRIPES && field == stripe.to_string()).then_some(stripe)
}

/// Orders the values of a mark; the greater one wins.
pub(super) fn order(mark: &str) -> (u64, u32) {
    (leading_number(mark), claim_text::read(mark).map_or(0, |claim| claim.number))
}

/// Returns the fields and values of a hash.
pub(super) fn pairs(value: &Value) -> impl Iterator<Item = (String, String)> + '_ {
    let (list, map) = match value {
        Value::Array(items) => (&items[..], &[][..]),
        Value::Map(pairs) => (&[][..], &pairs[..]),
        _ => (&[][..], &[][..]),
    };
    let shown = |value: &Value| text(value).to_string();
    list.chunks_exact(2)
        .map(move |pair| (shown(&pair[0]), shown(&pair[1])))
        .chain(map.iter().map(move |(field, value)| (shown(field), shown(value))))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = "0123456789abcdef0123456789abcdef";

    fn of_meta(fields: &[(&str, &str)]) -> (Option<Tag>, LearntState) {
        let text = |text: &str| Value::BulkString(text.into());
        let items = fields.iter().flat_map(|(field, value)| [text(field), text(value)]);
        LearntState::of_meta(&Value::Array(items.collect()))
    }

    fn mark(token: u64, number: u32) -> String {
        format!("{token} 60000 1 60000 0 0 0 0 0 #{number} 0 0 0 owner")
    }

    fn with_marks(marks: &[(&str, String)]) -> LearntState {
        let marks = marks.iter().map(|(name, mark)| ((*name).to_owned(), mark.clone())).collect();
        LearntState { marks, ..LearntState::default() }
    }

    #[test]
    fn meta_hash_is_parsed() {
        let tag = format!("a {RUN} 00112233aabbccdd");
        let (found, known) = of_meta(&[
            ("tag", &tag),
            ("from", "ffeeddccbbaa9988"),
            ("left", "1122334455667788"),
            ("floor", "70"),
            ("max_ttl", "1500"),
            ("longer", "2500 0123456789abcdef"),
        ]);

        assert_eq!(found.unwrap().text().as_ref(), tag);
        assert_eq!(known.left, Some(("ffeeddccbbaa9988".into(), "1122334455667788".into())));
        assert_eq!(known.floor, 70);
        assert_eq!(known.max_ttl, Duration::from_millis(1_500));
        assert_eq!(known.previous_max_ttl, Duration::from_millis(2_500));
        assert_eq!(known.longest(), known.previous_max_ttl);
    }

    #[test]
    fn only_stripes_have_fences() {
        let last = (STRIPES - 1).to_string();
        let next = STRIPES.to_string();
        let fields = [
            ("0", "12"),
            ("1", "0"),
            (&*last, "3"),
            (&*next, "3"),
            ("007", "12"),
            ("+8", "12"),
            ("x", "1"),
        ];
        let text = |text: &str| Value::BulkString(text.into());
        let items = fields.iter().flat_map(|(field, value)| [text(field), text(value)]);
        let mut known = LearntState::default();

        known.learn_fences(&Value::Array(items.collect()));

        assert_eq!(known.fences, BTreeMap::from([(0, 12), (STRIPES - 1, 3)]));
    }

    #[test]
    fn map_replies_are_parsed() {
        let text = |text: &str| Value::SimpleString(text.into());
        let meta = Value::Map(vec![(text("floor"), text("7"))]);
        assert_eq!(LearntState::of_meta(&meta).1.floor, 7);
        assert_eq!(LearntState::of_meta(&Value::Nil).1.floor, 0);
    }

    #[test]
    fn merge_keeps_maxima() {
        let (_, mut low) = of_meta(&[("floor", "3"), ("longer", "4 x")]);
        let (_, mut high) = of_meta(&[("floor", "2"), ("max_ttl", "3")]);
        low.fences.extend([(1, 5), (2, 9)]);
        high.fences.extend([(1, 8), (2, 6)]);

        for (mut one, other) in [(low.clone(), high.clone()), (high, low)] {
            one.merge(other);
            assert_eq!(one.fences, BTreeMap::from([(1, 8), (2, 9)]));
            assert_eq!(
                (one.floor, one.max_ttl.as_millis(), one.previous_max_ttl.as_millis()),
                (3, 3, 4)
            );
            assert_eq!(one.longest().as_millis(), 4);
        }
    }

    #[test]
    fn merge_keeps_later_claims() {
        let (low, high) = (mark(7, 3), mark(7, 4));
        for (one, other) in [(&low, &high), (&high, &low)] {
            let mut known = with_marks(&[("job", one.clone())]);
            known.merge(with_marks(&[("job", other.clone())]));
            assert_eq!(known.marks["job"], high);
        }
        let mut known = with_marks(&[("job", mark(10, 1))]);

        known.merge(with_marks(&[("job", mark(9, 2)), ("other", "0".into())]));

        assert_eq!((&known.marks["job"], &*known.marks["other"]), (&mark(10, 1), "0"));
    }
}
