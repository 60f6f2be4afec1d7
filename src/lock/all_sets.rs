//! Changes on the servers of all sets: a move to other servers, and a lower `max_ttl`.

use std::time::Duration;

use futures_util::future::join_all;

use super::client::Client;
use crate::{
    error::{AdoptError, LowerError, VoteOutcome, Votes},
    node::redis::{Adoption, Lowering},
};

/// Moves each of the old sets to the new one with its number. Returns the longest probation.
///
/// What can be known before is checked for all sets before the first one adopts: a half of the sets would
/// serve neither the clients of the old list nor the clients of the new one.
pub(super) async fn adopt(new: &[&Client], old: &[&Client]) -> Result<Duration, AdoptError> {
    if new.len() != old.len() {
        return Err(AdoptError::OtherNumber { old: old.len(), new: new.len() });
    }
    let mut adoptions = Vec::new();
    for (new, old) in new.iter().zip(old) {
        let (Some(to), Some(from)) = (&new.set, &old.set) else {
            return Err(AdoptError::NotGuarded);
        };
        match Adoption::plan(to, from) {
            Ok(adoption) => adoptions.push((new.settings.place, adoption)),
            // The others may change.
            Err(AdoptError::SameLayout) => {}
            Err(error) => return Err(error),
        }
    }
    if adoptions.is_empty() {
        return Err(AdoptError::SameLayout);
    }
    for (place, adoption) in &adoptions {
        if let Some(set) = place {
            adoption.check(*set).await?;
        }
    }
    let (mut longest, mut moved) = (Duration::ZERO, Vec::new());
    for (place, adoption) in adoptions {
        match (adoption.run().await, place) {
            (Ok(probation), place) => {
                longest = longest.max(probation);
                moved.extend(place.map(|set| set.number));
            }
            (Err(error), None) => return Err(error),
            (Err(error), Some(set)) => {
                let (moved, error) = (moved.into(), Box::new(error));
                return Err(AdoptError::InSet { set, moved, error });
            }
        }
    }
    Ok(longest)
}

/// Lowers the `max_ttl` of all sets at the same time. A set whose servers are down does not end the others'.
pub(super) async fn lower_max_ttl(sets: &[&Client]) -> Result<(), LowerError> {
    // Checked before anything is sent: otherwise the other sets would be lowered, and the error would not name them.
    if sets.iter().any(|set| set.set.is_none()) {
        return Err(LowerError::NoServers);
    }
    let lowered = join_all(sets.iter().map(|set| lower(set))).await;
    let votes = lowered.into_iter().collect::<Result<Vec<_>, _>>()?;
    if votes.iter().all(is_lowered) {
        return Ok(());
    }
    match <[Votes; 1]>::try_from(votes) {
        Ok([votes]) => Err(LowerError::Incomplete { votes }),
        Err(votes) => Err(LowerError::IncompleteSets { votes: votes.into() }),
    }
}

fn is_lowered(votes: &Votes) -> bool {
    votes.iter().all(|vote| vote.outcome == VoteOutcome::Granted)
}

/// Returns the result of each node of a set, once all locks with a longer TTL have expired.
async fn lower(client: &Client) -> Result<Votes, LowerError> {
    let servers = client.set.as_ref().ok_or(LowerError::NoServers)?;
    let lowering = Lowering::begin(servers).await;
    while lowering.remaining() > Duration::ZERO {
        client.sleep(lowering.remaining()).await;
    }
    Ok(lowering.end().await.in_set(client.settings.place))
}
