//! What came out, and whether every promise held.

use std::{collections::BTreeMap, process::ExitCode};

use crate::{effects::Effect, story::Outcome};

/// How often events have had their effect.
#[derive(Default)]
struct Counts {
    never: usize,
    once: usize,
    /// The receiver was killed between the effect and the record of it, as far as can be told: it
    /// wrote the first line, and has not answered.
    twice_by_kill: usize,
    more_often: usize,
    /// Another amount than was sent.
    wrong: usize,
    /// The later effect had the smaller token.
    backward: usize,
}

/// Prints counts and promises; the exit code tells whether all of them held.
pub(crate) fn print(outcome: &Outcome) -> ExitCode {
    let Outcome { events, deliveries, tally, forgeries, killed, effects, .. } = outcome;
    let counts = Counts::new(outcome);
    let unknown = effects.len() - known(outcome).values().map(Vec::len).sum::<usize>();
    let handled_twice = tally.handled.values().filter(|times| **times > 1).count();
    let cut_by_kill = tally.cut.iter().filter(|(receiver, _)| receiver == killed).count();
    let cut_otherwise = tally.cut.len() - cut_by_kill;

    println!("\n{} events, {deliveries} deliveries, {} requests", events.len(), tally.requests);
    println!("  {:>6} answered: handled", tally.handled.values().sum::<usize>());
    println!("  {:>6} answered: duplicate", tally.duplicates);
    for (status, count) in &tally.refusals {
        println!("  {count:>6} answered: {}, and sent again", status.as_u16());
    }
    println!("  {:>6} found nobody who listens, and were sent again", tally.not_connected);
    println!("  {cut_by_kill:>6} without an answer, as receiver {killed} was killed");
    println!("in the log of effects");
    println!("  {:>6} events once", counts.once);
    println!("  {:>6} twice: the kill fell between effect and record", counts.twice_by_kill);
    println!("  {:>6} more often without that excuse", counts.more_often);
    println!("  {:>6} never", counts.never);

    let (given_up, sent) = (tally.given_up, forgeries.sent);
    let Counts { never, twice_by_kill, more_often, wrong, backward, .. } = counts;
    let conflicts = tally.refusals.get(&axum::http::StatusCode::CONFLICT).copied().unwrap_or(0);
    let mut promises = vec![
        (
            tally.delivered == *deliveries,
            format!("every delivery came to a 2xx: {given_up} were given up"),
        ),
        (never == 0, format!("every event was handled: {never} were not")),
        (more_often == 0, format!("none was handled again: {more_often} were")),
        (
            twice_by_kill <= cut_by_kill,
            format!("but for what the kill cut off: {twice_by_kill} of {cut_by_kill} requests"),
        ),
        (handled_twice == 0, format!("none was answered twice as handled: {handled_twice} were")),
        (backward == 0, format!("tokens grew where an event was handled again: {backward} not")),
        (
            forgeries.wrong == 0 && unknown == 0 && wrong == 0,
            format!(
                "{sent} forged requests were turned away with 400 or 401, and had no effect: {} \
                 were not",
                forgeries.wrong.max(unknown + wrong)
            ),
        ),
        (cut_otherwise == 0, format!("who was not killed answered: {cut_otherwise} times not")),
        (
            tally.duplicates > 0 && conflicts > 0 && tally.not_connected > 0,
            "there were duplicates, some at the same time, and one receiver for a while".into(),
        ),
    ];
    if let Some(left) = outcome.locks_left {
        promises.push((left == 0, format!("no lock is left on a node: {left}")));
    }
    for (held, promise) in &promises {
        println!("{} {promise}", if *held { "ok    " } else { "BROKEN" });
    }
    if promises.iter().all(|(held, _)| *held) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The effects of each event that was sent.
fn known(outcome: &Outcome) -> BTreeMap<&str, Vec<&Effect>> {
    let mut known: BTreeMap<_, Vec<_>> =
        outcome.events.iter().map(|event| (event.id.as_str(), Vec::new())).collect();
    for effect in &outcome.effects {
        known.entry(effect.event.as_str()).and_modify(|effects| effects.push(effect));
    }
    known
}

impl Counts {
    fn new(outcome: &Outcome) -> Self {
        let known = known(outcome);
        let mut counts = Self::default();
        for event in &outcome.events {
            let effects = &known[event.id.as_str()][..];
            match effects {
                [] => counts.never += 1,
                [_] => counts.once += 1,
                [first, _] if is_by_kill(outcome, first) => counts.twice_by_kill += 1,
                _ => counts.more_often += 1,
            }
            counts.wrong += effects.iter().filter(|effect| effect.amount != event.amount).count();
            counts.backward +=
                effects.windows(2).filter(|pair| pair[1].token <= pair[0].token).count();
        }
        counts
    }
}

fn is_by_kill(outcome: &Outcome, first: &Effect) -> bool {
    let cut = (outcome.killed.to_owned(), first.event.clone());
    *first.receiver == *outcome.killed && outcome.tally.cut.contains(&cut)
}
