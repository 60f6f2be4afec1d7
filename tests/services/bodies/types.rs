//! What the types promise by their traits.

use std::{error::Error, fmt::Debug};

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use tower::Service;
use tower_redlock::{
    key::RequestHead,
    once::{
        DecodeResponseError, Fingerprint, Incomplete, MemoryStore, ParseFingerprintError, ReadBody,
        ReadBodyError, ResponseStore, RestoredBody, StoreError, StoredBy, StoredHeaders,
        StoredResponse, WholeBody,
    },
};

const fn shared<T: Send + Sync + Debug + 'static>() {}
const fn cloned<T: Clone>() {}
const fn unpinned<T: Unpin>() {}
const fn error<T: Error + Clone + Send + Sync + Unpin + 'static>() {}
const fn takes<T, R: Service<Request<T>>>() {}
const fn a_store<S: ResponseStore>() {}

type Body = Full<Bytes>;

#[test]
fn auto_traits_follow_the_body() {
    shared::<WholeBody>();
    cloned::<WholeBody>();
    shared::<ReadBody<Body>>();
    unpinned::<ReadBody<Body>>();
    shared::<Incomplete<Body>>();
    shared::<RestoredBody<Body>>();
    unpinned::<RestoredBody<Body>>();
    shared::<Fingerprint>();
    shared::<StoredHeaders>();
    cloned::<StoredHeaders>();
    shared::<StoredResponse>();
    cloned::<StoredResponse>();
    shared::<StoredBy>();
    cloned::<StoredBy>();
    shared::<MemoryStore>();
    cloned::<MemoryStore>();
    a_store::<MemoryStore>();
    shared::<RequestHead<'static>>();
    error::<ReadBodyError<std::fmt::Error>>();
    error::<DecodeResponseError>();
    error::<ParseFingerprintError>();

    error::<StoreError>();
}

#[test]
fn frameworks_take_intact_bodies() {
    takes::<RestoredBody<axum::body::Body>, axum::routing::Route>();
    takes::<RestoredBody<axum::body::Body>, axum::Router>();
    takes::<RestoredBody<hyper::body::Incoming>, axum::Router>();
    #[cfg(feature = "tonic")]
    takes::<RestoredBody<tonic::body::Body>, tonic::service::Routes>();
}

#[test]
fn store_error_has_source() {
    let failed = StoreError::failed("no route to host");
    assert_eq!(failed.to_string(), "the response store failed");
    assert_eq!(failed.source().unwrap().to_string(), "no route to host");
    assert!(StoreError::Stale.source().is_none());
}
