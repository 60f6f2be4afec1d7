//! What came out, and whether every promise held.

use std::{process::ExitCode, time::Duration};

use crate::{candidate::TTL, story::Tally};

/// What a busy machine may add: starting to run, and telling of it.
const SLACK: Duration = Duration::from_secs(1);

/// Prints counts and promises; the exit code tells whether all of them held.
pub(crate) fn print(rounds: usize, tally: &Tally) -> ExitCode {
    let Tally { ticks, takeovers, handover } = tally;
    let mut ticks = ticks.clone();
    ticks.sort_unstable();
    // In the order of time: a step of an earlier term after one of a later term is a second leader.
    let backward = ticks.windows(2).filter(|pair| pair[0].token > pair[1].token).count();
    let mut terms: Vec<_> = ticks.iter().map(|tick| tick.token).collect();
    terms.dedup();
    let longest = takeovers.iter().max().copied().unwrap_or_default();
    println!();
    println!("{rounds} leaders killed, {} terms, {} steps of work", terms.len(), ticks.len());
    let limit = TTL + TTL / 10 + SLACK;
    let promises = [
        (takeovers.len() == rounds, format!("each was followed: {}", takeovers.len())),
        (longest <= limit, format!("within a TTL and a tenth ({limit:?} at most): {longest:.2?}")),
        (*handover <= SLACK, format!("who leaves is followed at once: {handover:.2?}")),
        (backward == 0, format!("steps of a former leader beside a new one: {backward}")),
        (terms.is_sorted(), format!("tokens rose from term to term: {}", terms.len())),
    ];
    for (held, promise) in &promises {
        println!("{} {promise}", if *held { "ok    " } else { "BROKEN" });
    }
    if promises.iter().all(|(held, _)| *held) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
