//! The request as a method gets it, and the parts that the layer does not change.

use tonic::{Code, metadata::MetadataValue};

use crate::grpc::site::Site;

#[tokio::test]
async fn context_in_extensions_token_in_metadata() {
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
async fn no_key_no_context_no_wait() {
    let site = Site::open(|layer| layer).await;
    let held = site.stuck("7").await;
    assert_eq!(site.place("none", "").await.unwrap(), 0);
    assert!(site.orders.context().is_none());
    site.orders.let_go();
    held.await.unwrap().unwrap();
}

#[tokio::test]
async fn own_status_passes_and_releases() {
    let site = Site::open(|layer| layer).await;
    let status = site.place("7", "failing").await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::FailedPrecondition, "sold out"));
    assert_eq!(status.details(), b"sold");
    assert_eq!(status.metadata().get("shelf"), Some(&MetadataValue::from_static("7")));
    site.is_free("7").await;
}

#[tokio::test]
async fn unary_response_follows_the_release() {
    let site = Site::open(|layer| layer).await;
    for _ in 0..20 {
        site.place("7", "").await.expect("the one before is over");
    }
    site.is_free("7").await;
}
