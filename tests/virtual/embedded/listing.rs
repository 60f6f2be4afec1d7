//! Enumerating what the nodes store.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use futures_util::TryStreamExt;
use tower_redlock::{
    Redlock, RedlockBuilder,
    error::Reason,
    lock::Holder,
    node::{Answer, EmbeddedNodes, Op, ScannedAnswer},
};

use crate::support::{hand_clock::HandClock, mock_node::MockNode};

#[tokio::test]
async fn locks_and_once_keys_are_listed() {
    let redlock = Redlock::embedded();
    let locks: Vec<_> =
        [redlock.lock("a").await.unwrap(), redlock.lock(["b", "c"]).await.unwrap()].into();
    redlock.once("d").run(|_| async { Ok::<_, ()>(()) }).await.unwrap();
    let mut listed: Vec<Holder> = redlock.locks().try_collect().await.unwrap();
    listed.sort_by(|a, b| a.name.cmp(&b.name));
    let names: Vec<_> = listed.iter().map(|holder| &*holder.name).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert_eq!(listed[0].token, locks[0].fencing_token());
    let keys: Vec<Arc<str>> = redlock.once_keys().try_collect().await.unwrap();
    assert_eq!(keys, [Arc::from("d")]);
}

/// A manager over three nodes, the first of which refuses a number of scans.
fn refusing(scans: usize) -> (Redlock, Arc<AtomicUsize>) {
    let asked = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&asked);
    let nodes: Vec<_> = EmbeddedNodes::new(3).nodes("redlock").collect();
    let first = MockNode::refusing(&nodes[0], Reason::Busy, move |op| {
        matches!(op, Op::Scan(_)) && counted.fetch_add(1, Ordering::SeqCst) < scans
    });
    let others = nodes[1..].iter().map(MockNode::forwarding);
    let builder = others.fold(Redlock::builder().node(first), RedlockBuilder::node);
    (builder.build().unwrap(), asked)
}

#[tokio::test]
async fn busy_node_is_scanned_again() {
    let (redlock, asked) = refusing(2);
    let _lock = redlock.lock("a").await.unwrap();
    let listed: Vec<Holder> = redlock.locks().try_collect().await.unwrap();
    assert_eq!((listed.len(), listed[0].votes.len()), (1, 3));
    assert_eq!(asked.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn refusing_node_is_left_out() {
    let (redlock, asked) = refusing(usize::MAX);
    let _lock = redlock.lock("a").await.unwrap();
    let listed: Vec<Holder> = redlock.locks().try_collect().await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(asked.load(Ordering::SeqCst), 3, "three times, then no more");
}

/// Otherwise the scan would not end.
#[tokio::test]
async fn endless_node_is_left_out() {
    let nodes: Vec<_> = EmbeddedNodes::new(3).nodes("redlock").collect();
    let endless = MockNode::over(&nodes[0], |op, reply, inner| match op {
        Op::Scan(_) => {
            let page = ScannedAnswer::new(vec!["a".into()], Some("next".into()));
            reply.send(Ok(Answer::Scanned(page)));
        }
        op => inner.send(op, reply),
    });
    let others = nodes[1..].iter().map(MockNode::forwarding);
    let builder = others.fold(Redlock::builder().node(endless), RedlockBuilder::node);
    // No time passes, so that there are no pauses.
    let redlock = builder.clock(HandClock::new()).build().unwrap();
    let _locks = (redlock.lock("a").await.unwrap(), redlock.lock("b").await.unwrap());
    let mut names: Vec<_> =
        redlock.locks().map_ok(|holder| holder.name.to_string()).try_collect().await.unwrap();

    names.sort();

    assert_eq!(names, ["a", "b"]);
}

/// A diagnosis stores such keys for a moment.
#[tokio::test]
async fn invalid_names_are_left_out() {
    let nodes: Vec<_> = EmbeddedNodes::new(1).nodes("redlock").collect();
    let odd = MockNode::over(&nodes[0], |op, reply, inner| match op {
        Op::Scan(_) => {
            let names = vec!["\u{1}test-vote".into(), "a".into(), "".into()];
            reply.send(Ok(Answer::Scanned(ScannedAnswer::new(names, None))));
        }
        op => inner.send(op, reply),
    });
    let redlock = Redlock::builder().node(odd).build().unwrap();

    let keys: Vec<_> = redlock.claimed_jobs().try_collect().await.unwrap();

    assert_eq!(keys, [Arc::from("a")]);
}
