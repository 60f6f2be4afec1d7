use super::{NodeSet, side::prefix_pattern};
use crate::error::Reason;

/// How many keys a node looks through in one turn.
const BATCH: usize = 1_000;
/// More turns are not taken: a server may be full of somebody else's keys.
const MAX_TURNS: usize = 10_000;

/// How many lock keys a node keeps. Asks in small turns, so that the server goes on serving.
pub(crate) async fn count(set: &NodeSet, node: usize) -> Result<u64, Reason> {
    let pattern = prefix_pattern(&set.keys.lock_prefix);
    let mut side = set.open(node).await?;
    let mut cursor = String::from("0");
    let mut found = 0_u64;
    for _ in 0..MAX_TURNS {
        let keys;
        (cursor, keys) = side.scan(&cursor, &pattern, BATCH).await?;
        found = found.saturating_add(keys.len() as u64);
        if cursor == "0" || cursor.is_empty() {
            return Ok(found);
        }
    }
    Err(Reason::Protocol("more keys than can be looked through".into()))
}
