//! The outcome of all deliveries, and whether it is as it must be.

use std::collections::BTreeMap;

use axum::http::StatusCode;

use super::{
    effects::Effect,
    forgeries::Forgeries,
    sender::{Event, Tally},
};
use crate::stories::judge;

pub(crate) struct Outcome {
    pub(crate) events: Vec<Event>,
    pub(crate) deliveries: usize,
    pub(crate) tally: Tally,
    pub(crate) forgeries: Forgeries,
    pub(crate) killed: &'static str,
    pub(crate) effects: Vec<Effect>,
}

/// The number of events by how often they had their effect.
#[derive(Default)]
struct Counts {
    never: usize,
    once: usize,
    /// Twice, as the receiver was killed between the effect and the record of it: it wrote the first
    /// line, and has not answered.
    twice_by_kill: usize,
    more_often: usize,
    /// Effects with another amount than was sent.
    wrong: usize,
    /// Later effects with a smaller token.
    backward: usize,
}

impl Outcome {
    #[track_caller]
    pub(crate) fn judge(&self) {
        let Self { events, deliveries, tally, forgeries, killed, effects } = self;
        let Counts { never, once, twice_by_kill, more_often, wrong, backward } = self.counts();
        let unknown = effects.len() - self.by_event().values().map(Vec::len).sum::<usize>();
        let handled_twice = tally.handled.values().filter(|times| **times > 1).count();
        let cut_by_kill = tally.cut.iter().filter(|(receiver, _)| receiver == killed).count();
        let cut_otherwise = tally.cut.len() - cut_by_kill;
        println!(
            "{} events, {deliveries} deliveries, {} requests: {} handled, {} duplicates, {:?}, {} \
             not connected, {cut_by_kill} cut by the kill; effects: {once} once, {twice_by_kill} \
             twice by the kill",
            events.len(),
            tally.requests,
            tally.handled.values().sum::<usize>(),
            tally.duplicates,
            tally.refusals,
            tally.not_connected,
        );
        let conflicts = tally.refusals.get(&StatusCode::CONFLICT).copied().unwrap_or(0);
        let ineffective = forgeries.wrong == 0 && unknown == 0 && wrong == 0;
        judge(&[
            (
                tally.delivered == *deliveries,
                format!("deliveries that ended without a 2xx: {}", tally.given_up),
            ),
            (never == 0, format!("events that were not handled: {never}")),
            (more_often == 0, format!("events that were handled again: {more_often}")),
            (
                twice_by_kill <= cut_by_kill,
                format!("handled again after the kill: {twice_by_kill} of {cut_by_kill} requests"),
            ),
            (handled_twice == 0, format!("events answered twice as handled: {handled_twice}")),
            (backward == 0, format!("repeated effects with a smaller token: {backward}")),
            (
                ineffective,
                format!(
                    "{} forgeries: {} not rejected with 400 or 401, {unknown} effects of unknown \
                     events, {wrong} wrong amounts",
                    forgeries.sent, forgeries.wrong
                ),
            ),
            (cut_otherwise == 0, format!("running receivers that did not answer: {cut_otherwise}")),
            (
                tally.duplicates > 0 && conflicts > 0 && tally.not_connected > 0,
                "duplicates, some at the same time, and one receiver for a while".into(),
            ),
        ]);
    }

    /// The effects of each event that was sent.
    fn by_event(&self) -> BTreeMap<&str, Vec<&Effect>> {
        let events = self.events.iter();
        let mut by_event: BTreeMap<_, Vec<_>> =
            events.map(|event| (event.id.as_str(), Vec::new())).collect();
        for effect in &self.effects {
            by_event.entry(effect.event.as_str()).and_modify(|effects| effects.push(effect));
        }
        by_event
    }

    fn counts(&self) -> Counts {
        let by_event = self.by_event();
        let mut counts = Counts::default();
        for event in &self.events {
            let effects = &by_event[event.id.as_str()][..];
            match effects {
                [] => counts.never += 1,
                [_] => counts.once += 1,
                [first, _] if self.is_by_kill(first) => counts.twice_by_kill += 1,
                _ => counts.more_often += 1,
            }
            counts.wrong += effects.iter().filter(|effect| effect.amount != event.amount).count();
            let pairs = effects.windows(2);
            counts.backward += pairs.filter(|pair| pair[1].token <= pair[0].token).count();
        }
        counts
    }

    fn is_by_kill(&self, first: &Effect) -> bool {
        let cut = (self.killed.to_owned(), first.event.clone());
        *first.receiver == *self.killed && self.tally.cut.contains(&cut)
    }
}
