//! Long-lived records are taken over from the other nodes after the activation, in batches; until
//! that ends, the node says nothing on them.

use ::redis::{Pipeline, Value};

use super::{NodeSet, Tag};
use crate::{
    error::Reason,
    node::redis::{
        decode::{reason, text},
        scripts,
    },
};

/// How many keys a node looks through in one turn.
const BATCH: usize = 500;

/// True if the node has now what the others have.
pub(super) async fn copy(set: &NodeSet, node: usize) -> bool {
    match try_to_copy(set, node).await {
        Ok(records) => {
            let name = set.members()[node].status.name();
            tracing::info!(node = %name, records, "long-lived records were taken over");
            true
        }
        Err(reason) => {
            let name = set.members()[node].status.name();
            tracing::debug!(node = %name, %reason, "long-lived records are not taken over yet");
            false
        }
    }
}

async fn try_to_copy(set: &NodeSet, node: usize) -> Result<usize, Reason> {
    // The tag names the activation whose records these are.
    let tag = standing(set, node).await?.tag;
    let nodes = set.members().len();
    let quorum = crate::quorum::rules::quorum(nodes);
    let (mut complete, mut incomplete, mut records) = (0, 1, 0);
    let mut last = Reason::Unknown;
    for other in (0..nodes).filter(|&other| other != node) {
        match copy_from(set, other, node).await {
            Ok((copied, is_complete)) => {
                complete += usize::from(is_complete);
                incomplete += usize::from(!is_complete);
                records += copied;
            }
            Err(reason) => last = reason,
        }
    }
    // With a quorum of nodes that forgot, there is nobody to ask for the rest.
    if complete < nodes - quorum + 1 && incomplete < quorum {
        return Err(last);
    }
    let mut pipeline = Pipeline::with_capacity(1);
    pipeline.cmd("EVAL").arg(scripts::COPIED.text).arg(1).arg(&set.keys.meta).arg(&**tag.text());
    match set.ask(node, pipeline).await?.first() {
        Some(Value::Int(1)) => Ok(records),
        _ => Err(Reason::WrongTag { found: "".into() }),
    }
}

struct Records {
    tag: Tag,
    complete: bool,
}

/// How a node of this layout stands with its records.
async fn standing(set: &NodeSet, node: usize) -> Result<Records, Reason> {
    let mut pipeline = Pipeline::with_capacity(1);
    pipeline.cmd("HMGET").arg(&set.keys.meta).arg("tag").arg("once");
    let answers = set.ask(node, pipeline).await?;
    let items = match answers.into_iter().next() {
        Some(Value::Array(items)) => items,
        Some(Value::ServerError(error)) => return Err(reason(&error)),
        _ => return Err(Reason::Protocol("HMGET did not answer with a list".into())),
    };
    let tag = Tag::new(items.first().map(text).unwrap_or_default());
    let copying = !items.get(1).map(text).unwrap_or_default().is_empty();
    if tag.layout() != &*set.layout.hash {
        return Err(Reason::WrongTag { found: std::sync::Arc::clone(tag.text()) });
    }
    Ok(Records { complete: tag.is_active() && !copying, tag })
}

/// Copies every record of one node that the other does not have; tells how many, and whether the
/// one is complete.
async fn copy_from(set: &NodeSet, from: usize, to: usize) -> Result<(usize, bool), Reason> {
    let complete = standing(set, from).await?.complete;
    let mut cursor = String::from("0");
    let mut records = 0;
    loop {
        let mut pipeline = Pipeline::with_capacity(1);
        pipeline
            .cmd("EVAL")
            .arg(scripts::READ_RECORDS.text)
            .arg(0)
            .arg(&cursor)
            .arg(format!("{}*", glob(&set.keys.done_prefix)))
            .arg(BATCH);
        let items = match set.ask(from, pipeline).await?.into_iter().next() {
            Some(Value::Array(items)) => items,
            Some(Value::ServerError(error)) => return Err(reason(&error)),
            _ => return Err(Reason::Protocol("SCAN did not answer with a list".into())),
        };
        let mut items = items.into_iter();
        cursor = items.next().as_ref().map(text).unwrap_or_default().to_string();
        let mut writes = Pipeline::new();
        let rest: Vec<Value> = items.collect();
        for record in rest.chunks_exact(3) {
            let (Value::BulkString(value), Value::Int(ttl)) = (&record[1], &record[2]) else {
                continue;
            };
            // In its last millisecond: without a TTL it would stay for ever.
            if *ttl == 0 {
                continue;
            }
            let cmd = writes.cmd("SET").arg(&*text(&record[0])).arg(&value[..]).arg("NX");
            if *ttl > 0 {
                cmd.arg("PX").arg(*ttl);
            }
            records += 1;
        }
        if !writes.is_empty() {
            for answer in set.ask(to, writes).await? {
                if let Value::ServerError(error) = answer {
                    return Err(reason(&error));
                }
            }
        }
        if cursor == "0" {
            return Ok((records, complete));
        }
    }
}

/// The text as a pattern that matches it alone.
pub(super) fn glob(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut pattern, c| {
        if matches!(c, '*' | '?' | '[' | ']' | '\\') {
            pattern.push('\\');
        }
        pattern.push(c);
        pattern
    })
}
