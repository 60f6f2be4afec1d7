//! What a method sees, and what passes through untouched.

use tonic::{Code, metadata::MetadataValue};

use crate::site::Site;

#[tokio::test]
async fn the_context_is_in_the_extensions_and_the_token_in_the_metadata() {
    let site = Site::open(|layer| layer.token_header("fencing-token")).await;
    let token = site.place("7", "").await.unwrap();
    let context = site.orders.context().expect("a context");
    assert_eq!(context.resource().to_string(), "7");
    assert_eq!(context.fencing_token().get(), token);
    assert_eq!(site.orders.metadata("fencing-token"), Some(token.to_string()));
    assert!(site.place("7", "").await.unwrap() > token);
    site.is_free("7").await;
}

#[tokio::test]
async fn without_a_key_there_is_no_context_and_no_waiting() {
    let site = Site::open(|layer| layer).await;
    let held = site.stuck("7").await;
    assert_eq!(site.place("none", "").await.unwrap(), 0);
    assert!(site.orders.context().is_none());
    site.orders.let_go();
    held.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_methods_own_status_passes_and_its_lock_is_given_back() {
    let site = Site::open(|layer| layer).await;
    let status = site.place("7", "failing").await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::FailedPrecondition, "sold out"));
    assert_eq!(status.details(), b"sold");
    assert_eq!(status.metadata().get("shelf"), Some(&MetadataValue::from_static("7")));
    site.is_free("7").await;
}

#[tokio::test]
async fn a_unary_answer_comes_when_the_lock_is_free() {
    let site = Site::open(|layer| layer).await;
    for _ in 0..20 {
        site.place("7", "").await.expect("the one before is over");
    }
    site.is_free("7").await;
}
