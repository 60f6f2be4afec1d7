//! Inspecting and revoking a lock.

use std::time::Duration;

use tower_redlock::{
    Redlock, Resource,
    error::{ReleaseError, ResourceError, VoteOutcome},
    lock::Released,
    node::EmbeddedNodes,
};

#[tokio::test]
async fn revocation_spares_the_next_holder() {
    let nodes = EmbeddedNodes::new(5);
    let manager = |owner: &str| Redlock::builder().nodes_from(&nodes).owner(owner).build().unwrap();
    let (holder, other) = (manager("holder"), manager("other"));
    assert!(other.inspect("a").await.unwrap().is_none());
    let lock = holder.lock("a").await.unwrap();
    let told = other.inspect("a").await.unwrap().expect("the lock is held");
    assert_eq!((&*told.name, told.owner.as_deref()), ("a", Some("holder")));
    assert!(told.since.is_some() && told.is_quorum);
    assert_eq!(told.token, lock.fencing_token());
    let ttl = Duration::from_secs(10);
    assert!(told.remaining.is_some_and(|left| left <= ttl && !left.is_zero()));
    assert_eq!((told.votes.len(), told.kept), (5, 5));
    assert!(told.votes.iter().all(|vote| matches!(vote.outcome, VoteOutcome::Held { .. })));
    assert_eq!(other.revoke(&told).await, Ok(Released::Released));
    assert_eq!(nodes.key_counts(), [0; 5]);
    let next = other.lock("a").await.unwrap();
    assert_eq!(other.revoke(&told).await, Ok(Released::AlreadyLost));
    assert_eq!(nodes.key_counts(), [1; 5]);
    assert!(next.is_valid());
    assert!(lock.extend().await.is_err());
}

#[tokio::test]
async fn whoever_holds_a_name_is_revoked() {
    let nodes = EmbeddedNodes::new(5);
    let manager = |owner: &str| Redlock::builder().nodes_from(&nodes).owner(owner).build().unwrap();
    let (holder, other) = (manager("holder"), manager("other"));
    assert_eq!(other.revoke("a").await, Ok(Released::AlreadyLost));
    let lock = holder.lock("a").await.unwrap();
    assert_eq!(other.revoke("a").await, Ok(Released::Released));
    assert_eq!(nodes.key_counts(), [0; 5]);
    assert!(other.lock("a").await.is_ok());
    drop(lock);
    let _set = holder.lock(["b", "c"]).await.unwrap();
    let names = Resource::try_from(["b", "c"]).unwrap();
    assert_eq!(other.revoke(names).await, Ok(Released::Released));
    assert!(other.lock(["b", "c"]).await.is_ok());
    let invalid = other.revoke(String::new()).await;
    assert_eq!(invalid, Err(ReleaseError::InvalidResource(ResourceError::EmptyName)));
}
