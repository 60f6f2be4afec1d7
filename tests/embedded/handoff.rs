//! Locks that are handed on within the process.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tower_redlock::{
    EmbeddedNodes, NodeHealth, Redlock, RedlockBuilder,
    node::{Node, Op, Reply},
};

use crate::support::HANG_GUARD;

/// How many operations of a kind were sent to all nodes together.
#[derive(Debug, Default)]
struct Counts {
    acquires: AtomicUsize,
    releases: AtomicUsize,
    others: AtomicUsize,
}

#[derive(Debug)]
struct Counted {
    inner: Arc<dyn Node>,
    counts: Arc<Counts>,
}

impl Node for Counted {
    fn send(&self, op: Op, reply: Reply) {
        let count = match op {
            Op::Acquire { .. } => &self.counts.acquires,
            Op::Release { .. } => &self.counts.releases,
            _ => &self.counts.others,
        };
        count.fetch_add(1, Ordering::SeqCst);
        self.inner.send(op, reply);
    }

    fn name(&self) -> &str {
        self.inner.name()
    }

    fn health(&self) -> NodeHealth {
        self.inner.health()
    }
}

/// A manager over three nodes that count.
fn counted(builder: RedlockBuilder) -> (Redlock, Arc<Counts>, Redlock) {
    let lender = Redlock::builder().nodes_from(&EmbeddedNodes::new(3)).build().unwrap();
    let counts = Arc::<Counts>::default();
    let node = |inner: &Arc<dyn Node>| Counted { inner: inner.clone(), counts: counts.clone() };
    let nodes: Vec<_> = lender.nodes().iter().map(node).collect();
    let redlock = nodes.into_iter().fold(builder, RedlockBuilder::node).build().unwrap();
    (redlock, counts, lender)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn probe() {
    let (redlock, counts, _lender) = counted(Redlock::builder());
    let begun = std::time::Instant::now();
    let tasks: Vec<_> = (0..16)
        .map(|_| {
            let redlock = redlock.clone();
            tokio::spawn(async move {
                for _ in 0..1000 {
                    drop(redlock.lock("x").wait(HANG_GUARD).await.unwrap());
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    eprintln!("{:?} {counts:?}", begun.elapsed());
    let _ = Duration::ZERO;
}
