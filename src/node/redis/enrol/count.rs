use ::redis::{Pipeline, Value};

use super::{NodeSet, copy::glob};
use crate::{
    error::Reason,
    node::redis::decode::{reason, text},
};

/// How many keys a node looks through in one turn.
const BATCH: usize = 1_000;
/// More turns are not taken: a server may be full of somebody else's keys.
const MAX_TURNS: usize = 10_000;

/// How many lock keys a node keeps. Asks in small turns, so that the server goes on serving.
pub(crate) async fn count(set: &NodeSet, node: usize) -> Result<u64, Reason> {
    let pattern = format!("{}*", glob(&set.keys.lock_prefix));
    let mut cursor = String::from("0");
    let mut found = 0_u64;
    for _ in 0..MAX_TURNS {
        let mut pipeline = Pipeline::with_capacity(1);
        pipeline.cmd("SCAN").arg(&cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(BATCH);
        let mut items = match set.ask(node, pipeline).await?.into_iter().next() {
            Some(Value::Array(items)) => items.into_iter(),
            Some(Value::ServerError(error)) => return Err(reason(&error)),
            _ => return Err(Reason::Protocol("SCAN did not answer with a list".into())),
        };
        cursor = items.next().as_ref().map(text).unwrap_or_default().to_string();
        if let Some(Value::Array(keys)) = items.next() {
            found = found.saturating_add(keys.len() as u64);
        }
        if cursor == "0" || cursor.is_empty() {
            return Ok(found);
        }
    }
    Err(Reason::Protocol("more keys than can be looked through".into()))
}
