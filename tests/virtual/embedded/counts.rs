//! Counts of requests and losses.

use tower_redlock::{
    Redlock,
    node::EmbeddedNodes,
    testing::{ManualClock, Nodes},
};

use crate::durations::{MS, SECOND};

fn managers() -> (Redlock, Redlock) {
    let nodes = EmbeddedNodes::new(3);
    let manager = |owner: &str| Redlock::builder().nodes_from(&nodes).owner(owner).build().unwrap();
    (manager("ours"), manager("other"))
}

#[tokio::test]
async fn each_request_counts_once() {
    let (ours, other) = managers();
    let before = ours.counts();

    for _ in 0..30 {
        ours.lock("a").await.unwrap().release().await.unwrap();
    }
    let _slot = ours.lock("export").slots(1).await.unwrap();
    ours.lock("export").slots(1).await.unwrap_err();
    let _held = other.lock("a").await.unwrap();
    for _ in 0..3 {
        ours.lock("a").await.unwrap_err();
    }

    let counts = ours.counts().since(&before);
    assert_eq!((counts.acquired(), counts.refused, counts.lost), (31, 4, 0));
    assert_eq!(counts.waits.count(), 31);
    assert_eq!(other.counts().acquired(), 1, "the counts are those of one manager");
}

#[tokio::test]
async fn only_unplanned_ends_are_losses() {
    let clock = ManualClock::new();
    let nodes = Nodes::new(3, &clock);
    let [ours, other] = ["ours", "other"].map(|owner| nodes.replica(owner).redlock());
    let request = ours.lock("a").max_hold(SECOND);
    let mut run = clock.spawn(request.run(|_| std::future::pending::<()>()));
    clock.advance(SECOND);
    run.take().expect("the hold ends").unwrap_err();
    assert_eq!(ours.counts().lost, 0);
    let lock = ours.lock("b").await.unwrap();
    other.revoke("b").await.unwrap();
    let _next = other.lock("b").await.unwrap();
    clock.advance(MS);
    lock.extend().await.unwrap_err();
    assert_eq!(ours.counts().lost, 1);
}
