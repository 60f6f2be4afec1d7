//! Counts of requests.

use crate::embedded::nodes::managers;

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
