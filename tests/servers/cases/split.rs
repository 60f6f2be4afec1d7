//! Nodes that are split evenly between two clients.

use std::time::{Duration, Instant};

use tower_redlock::{LockError, Redlock};

use crate::fixture::{Fixture, HANG_GUARD, LONG, mock_node::with_nodes, patient};

use super::nodes::Split;

/// Two clients whose first attempts split the servers. The first manager only provides its nodes.
async fn divided(fixture: &Fixture) -> (Redlock, [Redlock; 2]) {
    let lender = fixture.direct(patient()).await;
    let split = Split::new(fixture.servers.len());
    let clients = [0, 1].map(|client| {
        let builder = patient().owner(format!("client {client}"));
        with_nodes(builder, split.nodes(client, &lender)).build().unwrap()
    });
    (lender, clients)
}

async fn both_attempts_end(count: usize) {
    let fixture = Fixture::new(count);
    let (_lender, [a, b]) = divided(&fixture).await;
    let started = Instant::now();
    let (in_a, in_b) = tokio::join!(a.lock("x"), b.lock("x"));
    assert!(started.elapsed() < HANG_GUARD);
    for (result, other) in [(in_a, "client 1"), (in_b, "client 0")] {
        let Err(LockError::Held { expires_in: Some(after), owner, .. }) = result else {
            panic!("{result:?}")
        };
        assert_eq!(owner.as_deref(), Some(other));
        // A key lives a little longer than its TTL.
        assert!(after <= LONG + Duration::from_secs(5));
    }
    fixture.all_keys_gone().await;
    drop(a.lock("x").await.unwrap());
}

async fn a_retry_wins(count: usize) {
    let fixture = Fixture::new(count);
    let (_lender, [a, b]) = divided(&fixture).await;
    let started = Instant::now();
    let (in_a, in_b) = tokio::join!(
        a.lock("x").wait(HANG_GUARD).run(|cx| async move { cx.fencing_token() }),
        b.lock("x").wait(HANG_GUARD).run(|cx| async move { cx.fencing_token() }),
    );
    assert_ne!(in_a.unwrap(), in_b.unwrap());
    assert!(started.elapsed() < HANG_GUARD);
    fixture.all_keys_gone().await;
}

#[tokio::test]
async fn two_to_two_ends_before_timeout() {
    for count in [2, 4] {
        both_attempts_end(count).await;
        a_retry_wins(count).await;
    }
}
