//! Reads and writes the records of work that is done once.

use std::{sync::Arc, time::Duration};

use super::{
    ActiveLease,
    client::Client,
    obligations::Obligation,
    query::{NodeQuery, query, query_each},
    quota::RecordShare,
};
use crate::{
    error::{LockError, Reason},
    node::Reply,
    protocol::{Answer, ForgetOp, Nonce, Op, Record, RecordOp, RepairOp, formulas},
    quorum::records::{self, RecordStatus},
    sync::Mutex,
};

pub(crate) use super::query::QueryAnswers;

/// A query about a record.
pub(crate) type Asked = NodeQuery<fn(&[Result<Answer, Reason>]) -> bool>;

/// Reads the record of a name until a quorum has answered and its status is known, and repairs it:
/// where a node has the record of finished work, it is written to those that lack it, also to those
/// that answer later.
///
/// One answer shows that work is done. A quorum of answers includes the record of the latest worker,
/// so that all requests return the same one.
pub(crate) fn read(client: &Arc<Client>, name: &Arc<str>) -> Asked {
    let op = Op::ReadRecord(Arc::clone(name));
    query_and_repair(client, name, &op, is_settled)
}

/// Reads the record of a name as [`read`] does, and writes nothing.
pub(crate) fn inspect(client: &Client, name: &Arc<str>) -> Asked {
    query(client, &Op::ReadRecord(Arc::clone(name)), is_settled)
}

/// Returns whether a quorum has answered, and further answers change nothing.
fn is_settled(answers: &[Result<Answer, Reason>]) -> bool {
    let answered = answers.iter().filter(|answer| answer.is_ok()).count();
    answered >= formulas::quorum(answers.len()) && status(answers).is_settled()
}

fn query_and_repair(
    client: &Arc<Client>,
    name: &Arc<str>,
    op: &Op,
    enough: fn(&[Result<Answer, Reason>]) -> bool,
) -> Asked {
    let repair = Arc::new(Repair {
        client: Arc::clone(client),
        name: Arc::clone(name),
        state: Mutex::default(),
    });
    query_each(client, op, enough, move |node, answer| repair.on_answer(node, answer))
}

/// Reads the record of every node.
pub(crate) fn read_all(client: &Client, name: &Arc<str>) -> Asked {
    query(client, &Op::ReadRecord(Arc::clone(name)), |_| false)
}

pub(crate) fn status(answers: &[Result<Answer, Reason>]) -> RecordStatus {
    let records = answers.iter().filter_map(|answer| match answer {
        Ok(Answer::Recorded(kept)) => {
            Some(kept.as_ref().map(|(record, remaining)| (record, *remaining)))
        }
        _ => None,
    });
    records::status(records, answers.len())
}

/// Writes a record under a valid lock of one name. Repairs the record of finished work instead
/// where a node has one.
pub(crate) fn record(lease: &ActiveLease, record: &Arc<Record>, retain: Duration) -> Asked {
    let op = Op::Record(RecordOp {
        lease: Arc::clone(lease.id()),
        record: Arc::clone(record),
        retain,
        until: lease.valid_until(),
        max_delay: lease.max_delay(),
    });
    let [name] = lease.resource().shared_names() else {
        return query(lease.client(), &op, is_kept);
    };
    lease.charge().write(name, record, retain);
    query_and_repair(lease.client(), name, &op, is_kept)
}

/// Returns whether a quorum keeps a record: this one, or one of finished work.
pub(crate) fn is_kept(answers: &[Result<Answer, Reason>]) -> bool {
    let kept = answers.iter().filter(|answer| matches!(answer, Ok(Answer::Recorded(Some(_)))));
    kept.count() >= formulas::quorum(answers.len())
}

/// Reserves quota for the record of a lease, before its work begins.
pub(crate) fn reserve(lease: &ActiveLease, share: Option<&RecordShare>) -> Result<(), LockError> {
    let [name] = lease.resource().shared_names() else { return Ok(()) };
    lease.charge().reserve(&lease.client().nodes, name, lease.id().owner(), share)
}

/// Deletes the record of a lease on each node, in the background. After `retain` it has expired.
pub(crate) fn forget(lease: &ActiveLease, name: &Arc<str>, retain: Duration) {
    let client = lease.client();
    let end = Arc::new(ForgetOp { name: Arc::clone(name), nonce: lease.id().nonce() });
    for node in 0..client.nodes.len() {
        let end = Arc::clone(&end) as Arc<dyn Obligation>;
        client.repeaters.send(node, end, client.now() + retain);
    }
}

/// Deletes the record of a lease, and waits for all answers.
pub(crate) fn forget_and_wait(client: &Client, name: &Arc<str>, nonce: Nonce) -> Asked {
    query(client, &Op::Forget(ForgetOp { name: Arc::clone(name), nonce }), |_| false)
}

/// Writes the record of finished work to the nodes that lack it.
struct Repair {
    client: Arc<Client>,
    name: Arc<str>,
    state: Mutex<RepairState>,
}

#[derive(Default)]
struct RepairState {
    done: Option<(Arc<Record>, Duration)>,
    /// Nodes without a record.
    lacking: Vec<usize>,
}

impl Repair {
    fn on_answer(&self, node: usize, answer: &Result<Answer, Reason>) {
        let Ok(Answer::Recorded(kept)) = answer else { return };
        let mut state = crate::sync::lock(&self.state);
        match kept {
            // Expires before it could be written elsewhere: a repair would prolong it.
            Some((_, remaining)) if *remaining <= self.client.settings.node_timeout => {}
            Some((record, remaining)) if record.is_done => {
                state.done.get_or_insert_with(|| (Arc::clone(record), *remaining));
            }
            _ => state.lacking.push(node),
        }
        let Some((record, retain)) = state.done.clone() else { return };
        let lacking = std::mem::take(&mut state.lacking);
        drop(state);
        for node in lacking {
            let (name, record) = (Arc::clone(&self.name), Arc::clone(&record));
            crate::log::debug!(%name, node = %self.client.node_name(node), "record repaired");
            let op = Op::Repair(RepairOp { name, record, retain });
            self.client.nodes[node].send(op, Reply::from_fn(|_| {}));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::StoredLease;

    fn done(token: u64) -> Answer {
        let left = Duration::from_secs(60);
        let nonce = Nonce::from_bytes([u8::try_from(token).expect("a small token"); 16]);
        let lease = StoredLease::new(nonce, token, left, "worker".into());
        let record = Record::new(true, lease, Arc::from([]));
        Answer::Recorded(Some((Arc::new(record), left)))
    }

    /// The first answer may have the record of a worker that was frozen, and ended last.
    #[test]
    fn done_record_is_reported_by_a_quorum() {
        let open = || Err(Reason::NotAwaited);

        assert!(!is_settled(&[open(), Ok(done(1)), open()]));

        let answers = [Ok(done(2)), Ok(done(1)), open()];
        assert!(is_settled(&answers));
        let RecordStatus::Done { record, .. } = status(&answers) else { panic!("it is done") };
        assert_eq!(record.lease.token, 2);
    }
}
