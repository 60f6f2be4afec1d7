//! Long-lived records are taken over from the other nodes after the activation, in batches; until
//! that ends, the node says nothing on them.

use std::{sync::Arc, time::Duration};

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

/// For so long a client has the copying to itself, from its last turn: longer than a turn takes,
/// and not so long that much is lost with a client that died.
const CLAIM: Duration = Duration::from_secs(5);

/// True if the node has now what the others have.
pub(super) async fn copy(set: &NodeSet, node: usize) -> bool {
    match try_to_copy(set, node).await {
        Ok(Copied::ByAnother) => false,
        Ok(Copied::Before) => true,
        Ok(Copied::Now(records)) => {
            let name = set.members()[node].status.name();
            crate::log::info!(node = %name, records, "long-lived records were taken over");
            true
        }
        Err(reason) => {
            let name = set.members()[node].status.name();
            crate::log::debug!(node = %name, %reason, "long-lived records are not taken over yet");
            false
        }
    }
}

enum Copied {
    /// So many records.
    Now(usize),
    /// The node has all already.
    Before,
    ByAnother,
}

async fn try_to_copy(set: &NodeSet, node: usize) -> Result<Copied, Reason> {
    // Both together name the activation whose records these are.
    let Records { tag, once, .. } = standing(set, node).await?;
    if once.is_empty() {
        return Ok(Copied::Before);
    }
    let claim = Claim { node, once, number: format!("{:016x}", crate::random::number()) };
    if !claim.renew(set, CLAIM).await? {
        return Ok(Copied::ByAnother);
    }
    let copied = copy_all(set, &claim, &tag).await;
    if copied.is_err() {
        // Another may reach a node that we don't.
        let _ = claim.renew(set, Duration::ZERO).await;
    }
    copied.map(Copied::Now)
}

/// That this client takes over the records of a node, and no other meanwhile.
struct Claim {
    node: usize,
    /// What stands in `once`.
    once: Arc<str>,
    number: String,
}

impl Claim {
    /// False where another has it, or nothing is to be done any more.
    async fn renew(&self, set: &NodeSet, time: Duration) -> Result<bool, Reason> {
        let mut pipeline = Pipeline::with_capacity(1);
        let cmd = pipeline.cmd("EVAL").arg(scripts::CLAIM_COPY.text).arg(1).arg(&set.keys.meta);
        cmd.arg(&*self.once).arg(&self.number).arg(time.as_micros().to_string());
        match set.ask(self.node, pipeline).await?.first() {
            Some(Value::Int(answer)) => Ok(*answer == 1),
            Some(Value::ServerError(error)) => Err(reason(error)),
            _ => Err(Reason::Protocol("a script did not answer with a number".into())),
        }
    }
}

async fn copy_all(set: &NodeSet, claim: &Claim, tag: &Tag) -> Result<usize, Reason> {
    let node = claim.node;
    let nodes = set.members().len();
    let quorum = crate::quorum::rules::quorum(nodes);
    let (mut complete, mut incomplete, mut records) = (0, 1, 0);
    let mut last = Reason::Unknown;
    for other in (0..nodes).filter(|&other| other != node) {
        match copy_from(set, other, claim).await {
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
    let cmd = pipeline.cmd("EVAL");
    cmd.arg(scripts::COPIED.text).arg(1).arg(&set.keys.meta);
    cmd.arg(&**tag.text()).arg(&*claim.once);
    match set.ask(node, pipeline).await?.first() {
        Some(Value::Int(1)) => Ok(records),
        _ => Err(Reason::WrongTag { found: "".into() }),
    }
}

struct Records {
    tag: Tag,
    /// `copying` and the nonce of the probation before, or nothing.
    once: Arc<str>,
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
    let once = items.get(1).map(text).unwrap_or_default();
    if tag.layout() != &*set.layout.hash {
        return Err(Reason::WrongTag { found: Arc::clone(tag.text()) });
    }
    Ok(Records { complete: tag.is_active() && once.is_empty(), tag, once })
}

/// Copies every record of one node that the claimed one does not have; tells how many, and whether the
/// one is complete.
async fn copy_from(set: &NodeSet, from: usize, claim: &Claim) -> Result<(usize, bool), Reason> {
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
            for answer in set.ask(claim.node, writes).await? {
                if let Value::ServerError(error) = answer {
                    return Err(reason(&error));
                }
            }
        }
        if cursor == "0" {
            return Ok((records, complete));
        }
        if !claim.renew(set, CLAIM).await? {
            return Err(Reason::WrongTag { found: "".into() });
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
