//! Checks how a node in probation reads the state of other nodes.

use ::redis::Value;

use super::learnt_state::{LearntState, order, pairs};
use crate::stripe::STRIPES;

/// Reads a reply as the state of a node, and as a page of its marks.
///
/// A fence goes to another server only under its canonical name. Learning the same state twice has
/// no further effect, and of two marks the same one wins in any order.
pub(crate) fn learnt(reply: &Value) {
    let (_, mut known) = LearntState::of_meta(reply);
    known.learn_fences(reply);
    assert!(known.fences.iter().all(|(stripe, fence)| *stripe < STRIPES && *fence > 0));
    let marks: Vec<_> = pairs(reply).collect();
    let learn = |marks: &mut dyn Iterator<Item = &(String, String)>| {
        let mut all = LearntState::default();
        for (name, mark) in marks {
            let mut one = LearntState::default();
            one.marks.insert(name.clone(), mark.clone());
            all.merge(one);
        }
        all.marks
    };
    let (forwards, backwards) = (learn(&mut marks.iter()), learn(&mut marks.iter().rev()));
    for (name, mark) in &forwards {
        assert_eq!(order(mark), order(&backwards[name]), "{name}");
    }
    known.marks = forwards;
    let mut twice = known.clone();
    twice.merge(known.clone());
    assert_eq!((twice.fences, twice.marks), (known.fences, known.marks));
    assert_eq!((twice.floor, twice.max_ttl), (known.floor, known.max_ttl));
}
