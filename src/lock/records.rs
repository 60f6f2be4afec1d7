//! Asks the nodes what is recorded of a name, and has them keep records.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use super::{
    ActiveLease,
    ask::{Ask, ask, ask_and_hear, tell},
    core::Core,
};
use crate::{
    error::{LockError, Reason, VoteOutcome},
    protocol::{Answer, ForgetOp, Nonce, Op, Record, RecordOp, RepairOp, rules},
    quorum::records::{self, RecordStatus},
};

pub(crate) use super::ask::Answers;

/// A round of questions about a record.
pub(crate) type Asked = Ask<fn(&[Result<Answer, Reason>]) -> bool>;

/// Asks what is recorded, until it is known. Where a node tells that the work is done, those that
/// don't have it are told, also those that answer later.
pub(crate) fn read(core: &Arc<Core>, name: &Arc<str>) -> Asked {
    let op = Op::ReadRecord(Arc::clone(name));
    let enough = |answers: &[Result<Answer, Reason>]| status(answers).is_settled();
    ask_and_repair(core, name, &op, enough)
}

fn ask_and_repair(
    core: &Arc<Core>,
    name: &Arc<str>,
    op: &Op,
    enough: fn(&[Result<Answer, Reason>]) -> bool,
) -> Asked {
    let repair = Repair { core: Arc::clone(core), name: Arc::clone(name), heard: Mutex::default() };
    let repair = Arc::new(repair);
    ask_and_hear(core, op, enough, move |node, answer| repair.hear(node, answer))
}

/// What every node keeps.
pub(crate) fn read_all(core: &Core, name: &Arc<str>) -> Asked {
    ask(core, &Op::ReadRecord(Arc::clone(name)), |_| false)
}

/// What the answers come to.
pub(crate) fn status(answers: &[Result<Answer, Reason>]) -> RecordStatus {
    let told = answers.iter().filter_map(|answer| match answer {
        Ok(Answer::Recorded(kept)) => {
            Some(kept.as_ref().map(|(record, remaining)| (record, *remaining)))
        }
        _ => None,
    });
    records::status(told, answers.len())
}

/// Has a record kept under a lock, of one name, that is valid at the moment. Where a node tells that
/// the work is done already, the others are told.
pub(crate) fn record(lease: &ActiveLease, record: &Arc<Record>, retain: Duration) -> Asked {
    let op = Op::Record(RecordOp {
        lease: Arc::clone(lease.id()),
        record: Arc::clone(record),
        retain,
        until: lease.valid_until(),
        patience: lease.patience(),
    });
    let [name] = lease.resource().shared_names() else { return ask(lease.core(), &op, is_kept) };
    lease.charge().write(name, record, retain);
    ask_and_repair(lease.core(), name, &op, is_kept)
}

/// Whether a quorum keeps a record, ours or one of work that is done.
pub(crate) fn is_kept(answers: &[Result<Answer, Reason>]) -> bool {
    let kept = answers.iter().filter(|answer| matches!(answer, Ok(Answer::Recorded(Some(_)))));
    kept.count() >= rules::quorum(answers.len())
}

/// Takes room for the record of a lease, before its work begins.
pub(crate) fn reserve(lease: &ActiveLease) -> Result<(), LockError> {
    let [name] = lease.resource().shared_names() else { return Ok(()) };
    lease.charge().reserve(lease.core(), name, lease.id().owner())
}

/// Has the record of a lease deleted. Waits for nothing.
pub(crate) fn forget(core: &Core, name: &Arc<str>, nonce: Nonce) {
    tell(core, &Op::Forget(ForgetOp { name: Arc::clone(name), nonce }));
}

/// Has the record of a lease deleted, and hears every node.
pub(crate) fn forget_and_hear(core: &Core, name: &Arc<str>, nonce: Nonce) -> Asked {
    ask(core, &Op::Forget(ForgetOp { name: Arc::clone(name), nonce }), |_| false)
}

/// Too few nodes told, or did, what they were asked for.
pub(crate) fn no_quorum(core: &Core, answers: &[Result<Answer, Reason>]) -> LockError {
    let vote = |answer: &Result<Answer, Reason>| match answer {
        Ok(_) => VoteOutcome::Granted,
        Err(reason) => VoteOutcome::NotCounted(reason.clone()),
    };
    LockError::NoQuorum { votes: core.votes(answers.iter().map(vote).collect()) }
}

/// Brings the record of work that is done to nodes that don't have it.
struct Repair {
    core: Arc<Core>,
    name: Arc<str>,
    heard: Mutex<Heard>,
}

#[derive(Default)]
struct Heard {
    done: Option<(Arc<Record>, Duration)>,
    /// Nodes that have said that they have none.
    without: Vec<usize>,
}

impl Repair {
    fn hear(&self, node: usize, answer: &Result<Answer, Reason>) {
        let Ok(Answer::Recorded(kept)) = answer else { return };
        let mut heard = crate::sync::lock(&self.heard);
        match kept {
            // What ends sooner than it can be brought elsewhere would live on by that.
            Some((_, remaining)) if *remaining <= self.core.settings.node_timeout => {}
            Some((record, remaining)) if record.is_done => {
                heard.done.get_or_insert_with(|| (Arc::clone(record), *remaining));
            }
            _ => heard.without.push(node),
        }
        let Some((record, retain)) = heard.done.clone() else { return };
        let without = std::mem::take(&mut heard.without);
        drop(heard);
        for node in without {
            let (name, record) = (Arc::clone(&self.name), Arc::clone(&record));
            crate::log::debug!(%name, node = %self.core.node_name(node), "record repaired");
            let op = Op::Repair(RepairOp { name, record, retain });
            self.core.nodes[node].send(op, crate::node::Reply::from_fn(|_| {}));
        }
    }
}
