//! Fuzz targets of stored responses, and of the headers that say who asked for them.

#![allow(clippy::missing_panics_doc, reason = "a panic is a broken promise")]

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Request,
    header::{ACCEPT_ENCODING, CONTENT_ENCODING, HOST},
};

use super::{accept_encoding::AcceptEncoding, host, key, payload::Payload};
use crate::{
    key::RequestHead,
    once::{StoredResponse, store},
    resource::Resource,
};

/// Reads bytes as the payload of a record, as a stored response, and as a value of a store on a server.
///
/// What is read has the same bytes again, but for the order of headers with different names.
pub fn responses(data: &[u8]) {
    if let Ok(response) = StoredResponse::decode(Bytes::copy_from_slice(data)) {
        let again = response.encode();
        assert_eq!(again.len(), data.len());
        assert_eq!(StoredResponse::decode(again), Ok(response));
    }
    store::fuzz_stored(data);
    if let Some(payload) = Payload::decode(data) {
        let again = payload.encode();
        assert_eq!(again.len(), data.len());
        assert_eq!(Payload::decode(&again), Some(payload));
    }
}

/// Reads bytes as a `Host`, which is normalized once and for all, and as an `Accept-Encoding`.
pub(crate) fn of_caller(value: &HeaderValue) {
    let authority = |host: &HeaderValue| {
        let request = Request::builder().header(HOST, host).body(()).expect("a request");
        host::authority(&RequestHead::from(&request))
    };
    if let Ok(host) = authority(value) {
        assert!(!host.contains(['/', '@']) && !host.contains(char::is_control), "{host:?}");
        let again = authority(&host.parse().expect("a header's value"));
        assert_eq!(again, Ok(host.clone()));
        let name =
            key::name("layer", Some(&host), "scope", &Resource::try_from("key").expect("a name"));
        let lock = Resource::of_once(&name.expect("a record's name").to_string());
        assert!(lock.is_ok(), "{lock:?}");
    }
    let mut sent = HeaderMap::from_iter([(ACCEPT_ENCODING, value.clone())]);
    let accepted = AcceptEncoding::ask_for_plain(&mut sent);
    let accepts = |coding: &HeaderValue| {
        accepted.accepts(&HeaderMap::from_iter([(CONTENT_ENCODING, coding.clone())]))
    };
    assert!(accepts(&HeaderValue::from_static("identity")));
    accepts(value);
}
