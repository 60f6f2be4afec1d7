//! What a quorum keeps, every quorum tells.

use std::{sync::Arc, time::Duration};

use proptest::prelude::*;

use super::safety::config;
use crate::{
    protocol::formulas::Sources,
    protocol::{Nonce, Record, StoredLease, formulas},
    quorum::records::{RecordStatus, status},
};

const LEFT: Duration = Duration::from_secs(60);

fn record(number: u8, is_done: bool) -> Arc<Record> {
    record_of(number, 1, is_done)
}

fn record_of(number: u8, token: u64, is_done: bool) -> Arc<Record> {
    let owner = format!("replica {number}").into();
    let lease = StoredLease::new(Nonce::from_bytes([number; 16]), token, LEFT, owner);
    Arc::new(Record::new(is_done, lease, Arc::from([])))
}

fn of(told: &[Option<&Arc<Record>>], nodes: usize) -> RecordStatus {
    status(told.iter().map(|kept| kept.map(|record| (record, LEFT))), nodes)
}

fn done(record: &Arc<Record>) -> RecordStatus {
    RecordStatus::Done { record: Arc::clone(record), remaining: LEFT }
}

fn unknown(record: &Arc<Record>, is_certain: bool) -> RecordStatus {
    RecordStatus::Unknown { record: Arc::clone(record), remaining: LEFT, is_certain }
}

#[test]
fn one_node_proves_work_done() {
    let (ours, begun) = (record(1, true), record(2, false));
    assert_eq!(of(&[Some(&ours)], 5), done(&ours));
    assert_eq!(of(&[None, None, None, None, Some(&ours)], 5), done(&ours));
    assert_eq!(of(&[Some(&begun), Some(&begun), Some(&ours)], 3), done(&ours));
}

#[test]
fn longer_kept_record_is_reported() {
    let (one, two) = (record(1, true), record(2, true));
    let told = [Some((&one, LEFT)), Some((&two, LEFT * 2)), None];
    assert_eq!(status(told, 3), RecordStatus::Done { record: two, remaining: LEFT * 2 });
}

#[test]
fn record_of_the_later_worker_is_reported() {
    let (frozen, later) = (record_of(1, 1, true), record_of(2, 2, true));
    // The worker that was frozen ended last.
    let told = [Some((&frozen, LEFT * 2)), Some((&later, LEFT)), None];
    assert_eq!(status(told, 3), done(&later));
}

#[test]
fn nothing_needs_quorum_of_answers() {
    assert_eq!(of(&[], 1), RecordStatus::TooFew);
    assert_eq!(of(&[None], 1), RecordStatus::Nothing);
    assert_eq!(of(&[None, None], 5), RecordStatus::TooFew);
    assert_eq!(of(&[None, None, None], 5), RecordStatus::Nothing);
    // Half of an even number is none.
    assert_eq!(of(&[None, None], 4), RecordStatus::TooFew);
}

#[test]
fn begun_work_blocks_with_possible_quorum() {
    let (a, b) = (record(1, false), record(2, false));
    assert_eq!(of(&[Some(&a), Some(&a)], 3), unknown(&a, true));
    assert_eq!(of(&[Some(&a), None], 3), unknown(&a, false));
    assert_eq!(of(&[Some(&a), None, None], 3), RecordStatus::Nothing);
    assert_eq!(of(&[Some(&a), Some(&b), None], 3), RecordStatus::Nothing);
    assert_eq!(of(&[Some(&a)], 3), RecordStatus::TooFew);
    assert_eq!(of(&[Some(&a), Some(&b), Some(&b), None], 5), unknown(&b, false));
}

#[test]
fn records_of_all_others_are_read() {
    let suffice = |nodes, complete, incomplete, is_bootstrapped| {
        Sources { nodes, complete, incomplete, is_bootstrapped }.suffice()
    };

    for (nodes, needed) in [(2, 1), (3, 2), (4, 2), (5, 3)] {
        assert!(suffice(nodes, needed, 1, false), "{nodes}");
        assert!(!suffice(nodes, needed - 1, 1, false), "{nodes}");
        assert!(suffice(nodes, 0, nodes, false), "{nodes}: no other may keep more");
        assert!(!suffice(nodes, 0, nodes - 1, false), "{nodes}: one may keep more");
        let quorum = formulas::quorum(nodes);
        assert!(suffice(nodes, 0, quorum, true) && suffice(nodes, quorum - 1, 1, true), "{nodes}");
        assert!(!suffice(nodes, 0, quorum - 1, true), "{nodes}");
    }

    assert!(suffice(1, 0, 1, true));
}

/// What one node keeps.
fn kept() -> impl Strategy<Value = Option<Arc<Record>>> {
    proptest::option::of((0..3_u8, any::<bool>()).prop_map(|(number, done)| record(number, done)))
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn quorum_record_is_seen_by_quorum(
        (nodes, before) in (1..8_usize)
            .prop_flat_map(|n| (Just(n), proptest::collection::vec(kept(), n))),
        writes in any::<u64>(),
        order in any::<u64>(),
        is_done in any::<bool>(),
    ) {
        let quorum = formulas::quorum(nodes);
        let mut kept = before;
        // Work runs only where nothing was found, so no other is done on any node.
        kept.retain(|kept| kept.as_ref().is_none_or(|record| !record.is_done));
        kept.resize(nodes, None);
        let ours = record(9, is_done);
        let written: Vec<usize> = (0..nodes).filter(|node| writes >> node & 1 == 1).collect();
        for node in &written {
            kept[*node] = Some(Arc::clone(&ours));
        }
        let mut readers: Vec<usize> = (0..nodes).collect();
        readers.sort_by_key(|node| (order >> (node * 8)) & 0xff);
        for heard in quorum..=nodes {
            let told: Vec<_> = readers[..heard].iter().map(|node| kept[*node].as_ref()).collect();
            let found = of(&told, nodes);

            if written.len() >= quorum {
                let seen = match &found {
                    RecordStatus::Done { record, .. } => *record == ours && is_done,
                    // Whose record it is becomes certain once enough nodes have answered.
                    RecordStatus::Unknown { record, is_certain, .. } => {
                        !is_done && (*record == ours || !is_certain)
                    }
                    RecordStatus::TooFew | RecordStatus::Nothing => false,
                };
                prop_assert!(seen, "{heard} of {nodes}: {found:?}");
            }
            prop_assert_ne!(found, RecordStatus::TooFew);
        }
    }

    #[test]
    fn settled_verdict_changes_only_to_done(
        kept in proptest::collection::vec(kept(), 1..8),
        order in any::<u64>(),
    ) {
        let nodes = kept.len();
        let mut readers: Vec<usize> = (0..nodes).collect();
        readers.sort_by_key(|node| (order >> (node * 8)) & 0xff);
        let mut settled: Option<RecordStatus> = None;
        for heard in 0..=nodes {
            let told: Vec<_> = readers[..heard].iter().map(|node| kept[*node].as_ref()).collect();
            let found = of(&told, nodes);

            if let Some(settled) = &settled {
                let is_done = matches!(found, RecordStatus::Done { .. });
                prop_assert!(is_done || found == *settled, "{settled:?}, then {found:?}");
            }
            if found.is_settled() {
                settled = Some(found);
            }
        }
        prop_assert!(settled.is_some(), "all have told");
    }
}
