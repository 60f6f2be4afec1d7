//! Fuzz targets of the keys of requests.

#![allow(clippy::missing_panics_doc, reason = "a panic is a broken promise")]

use std::borrow::Cow;

use http::{HeaderValue, Request};
use percent_encoding::percent_decode_str;
use serde_json::Value;

use super::{self as key, BodyKey, MAX_IDEMPOTENCY_KEY_BYTES, RequestHead};
use crate::{
    layer::{KeyError, ResourceKey},
    resource::Resource,
};

/// Returns the name that a key finds. Checks the length and characters of the name or of the error.
fn name(found: Result<Option<Resource>, KeyError>) -> Option<String> {
    match found {
        Ok(resource) => {
            let resource = resource?;
            assert!((1..=Resource::MAX_NAMES).contains(&resource.names().len()));
            for name in resource.names() {
                assert!((1..=Resource::MAX_NAME_BYTES).contains(&name.len()), "{name:?}");
                assert!(!name.contains(char::is_control), "{name:?}");
            }
            Some(resource.to_string())
        }
        Err(error) => {
            let text = error.to_string();
            assert!(text.len() < 200 && !text.contains(char::is_control), "{text:?}");
            None
        }
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.len() <= Resource::MAX_NAME_BYTES && !text.contains(char::is_control)
}

/// Reads keys from a request: the first line is its target, the rest the value of a header.
///
/// Each name is within its limits, and equal to the name that this function computes in another
/// way.
pub fn keys(data: &[u8]) {
    let mut parts = data.splitn(2, |byte| *byte == b'\n');
    let target = parts.next().unwrap_or_default();
    let mut request = Request::builder().uri(target);
    if let Some(value) = parts.next() {
        request = request.header("x-key", value);
    }
    let Ok(request) = request.body(()) else { return };
    let segments: Vec<Cow<'_, [u8]>> = match request.uri().path().strip_prefix('/') {
        Some(path) => path.split('/').map(|part| percent_decode_str(part).into()).collect(),
        None => Vec::new(),
    };
    for i in 0..3 {
        let found = name(key::path_segment(i).key(&request));
        let segment = segments.get(i).and_then(|segment| std::str::from_utf8(segment).ok());
        assert_eq!(found.as_deref(), segment.filter(|text| is_name(text)), "segment {i}");
    }
    let header = name(key::header("x-key").key(&request));
    if let Some(header) = &header {
        let value = request.headers()["x-key"].as_bytes();
        assert_eq!(header.as_bytes(), value.trim_ascii());
    }
    if let Some(id) = name(key::query("id").key(&request)) {
        let pairs = request.uri().query().expect("a query").split('&');
        let is_same = |pair: &&str| {
            let value = pair.split_once('=').map_or("", |(_, value)| value).replace('+', " ");
            percent_decode_str(&value).decode_utf8().is_ok_and(|value| value == id)
        };
        assert!(pairs.clone().any(|pair| is_same(&pair)), "{id:?}");
    }
    joined(&request, segments.first().map(AsRef::as_ref), header.as_deref());
    if let Some(hashed) = name(key::header("x-key").hashed().key(&request)) {
        assert!(hashed.len() == 64 && hashed.bytes().all(|byte| byte.is_ascii_hexdigit()));
    }
    if let Some(number) = name(key::path_segment(0).parsed::<u64>().key(&request)) {
        let segment = std::str::from_utf8(&segments[0]).expect("text");
        assert_eq!(segment.parse::<u64>().expect("a number").to_string(), number);
    }
    method_and_path(&request, &segments);
    #[cfg(feature = "axum")]
    path_param(request);
}

/// Checks that the parts of a joined name can be separated again.
fn joined(request: &Request<()>, segment: Option<&[u8]>, header: Option<&str>) {
    let both = key::joined((key::path_segment(0), key::header("x-key"))).prefixed("p:");
    let Some(both) = name(both.key(request)) else { return };
    let parts = both.strip_prefix("p:").and_then(|parts| parts.split_once(':')).expect("two parts");
    let unescaped = |part: &str| part.replace("%3A", ":").replace("%25", "%");
    assert_eq!(Some(unescaped(parts.0).as_bytes()), segment);
    assert_eq!(header.map(str::to_owned), Some(unescaped(parts.1)));
}

/// Checks that the name, used as a target, has the same segments and the same name.
fn method_and_path(request: &Request<()>, segments: &[Cow<'_, [u8]>]) {
    let Some(found) = name(key::method_and_path().key(request)) else { return };
    let path = found.strip_prefix("GET ").expect("a method");
    let Some(within) = path.strip_prefix('/') else { return };
    let again: Vec<Cow<'_, [u8]>> =
        within.split('/').map(|part| percent_decode_str(part).into()).collect();
    assert_eq!(again, segments);
    let again = Request::get(path).body(()).expect("a valid path");
    assert_eq!(name(key::method_and_path().key(&again)), Some(found));
}

/// Checks that the name of a route's parameter is the value that axum passes to the handler.
#[cfg(feature = "axum")]
fn path_param(request: Request<()>) {
    use std::sync::LazyLock;

    use axum::{Router, body::Body, extract, routing::any};
    use futures_util::FutureExt;
    use tower_service::Service;

    async fn compare(path: extract::RawPathParams, request: extract::Request) {
        for (param, value) in &path {
            let found = name(key::path_param(param).key(&request));
            assert_eq!(found.as_deref(), Some(value).filter(|value| is_name(value)), "{param}");
        }
    }
    static ROUTER: LazyLock<Router> = LazyLock::new(|| {
        Router::new()
            .route("/{id}", any(compare))
            .route("/v{id}/x", any(compare))
            .route("/{id}/of/{other}", any(compare))
            .route("/rest/{*id}", any(compare))
    });
    if request.uri().path().starts_with('/') {
        let answer = ROUTER.clone().call(request.map(|()| Body::empty()));
        answer.now_or_never().expect("ready at once").expect("infallible");
    }
}

/// Reads a key from a JSON body: the first line is the pointer, the rest the body.
///
/// The name is the value that `serde_json` finds in the document, if no member is a duplicate.
pub fn json(data: &[u8]) {
    let mut parts = data.splitn(2, |byte| *byte == b'\n');
    let pointer = std::str::from_utf8(parts.next().unwrap_or_default());
    let (Ok(pointer), Some(body)) = (pointer, parts.next()) else { return };
    let is_pointer = (pointer.is_empty() || pointer.starts_with('/'))
        && pointer.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
    if !is_pointer || pointer.contains(char::is_control) || pointer.len() > 100 {
        return;
    }
    let request = Request::new(());
    let found = key::json_pointer(pointer).body_key(&RequestHead::from(&request), body);
    let text = found.as_ref().err().map(ToString::to_string);
    let found = name(found);
    let document = match serde_json::from_slice::<Value>(body) {
        Ok(document) => document,
        Err(error) => {
            // These errors are not detected outside of the pointer's path.
            let text = error.to_string();
            let is_skipped =
                ["recursion limit", "number out of range"].map(|why| text.starts_with(why));
            let has_escape = body.windows(2).any(|pair| pair == b"\\u");
            assert!(found.is_none() || has_escape || is_skipped.contains(&true), "{text}");
            return;
        }
    };
    let is_refused = |why: &str| text.as_deref().unwrap_or_default().starts_with(why);
    assert!(!is_refused("the body is not JSON"), "{text:?}");
    // The search ended at an object, although the document has a later member of the same name.
    let ends_early = is_refused("the value at")
        && objects(&document) < String::from_utf8_lossy(body).matches('{').count();
    let expected = match document.pointer(pointer) {
        Some(Value::String(text)) => Some(text.clone()).filter(|text| is_name(text)),
        Some(Value::Number(number)) if number.is_i64() || number.is_u64() => {
            Some(number.to_string())
        }
        _ => None,
    };
    if !is_refused("the body has more than one value") && !ends_early {
        assert_eq!(found, expected);
    }
}

/// Returns the number of objects in a document.
fn objects(document: &Value) -> usize {
    match document {
        Value::Array(elements) => elements.iter().map(objects).sum(),
        Value::Object(members) => 1 + members.values().map(objects).sum::<usize>(),
        _ => 0,
    }
}

/// Reads bytes as the value of `Idempotency-Key`.
///
/// The name is the value that RFC 9651 defines, and a quoted form of it is read as the same name.
pub fn idempotency_key(data: &[u8]) {
    let of = |value: &[u8]| {
        let value = HeaderValue::from_bytes(value).ok()?;
        let request = Request::builder().header("idempotency-key", value).body(());
        name(key::idempotency_key().key(&request.expect("a request")))
    };
    let Ok(value) = HeaderValue::from_bytes(data) else { return };
    let expected = string(value.as_bytes().trim_ascii())
        .filter(|text| (1..=MAX_IDEMPOTENCY_KEY_BYTES).contains(&text.len()));
    let found = of(data);
    assert_eq!(found, expected);
    if let Some(found) = found {
        let quoted = format!("\"{}\"", found.replace('\\', "\\\\").replace('"', "\\\""));
        assert_eq!(of(quoted.as_bytes()), Some(found));
    }
}

/// Reads a string byte by byte as RFC 9651 (section 4.2.5) defines, or a bare value.
fn string(value: &[u8]) -> Option<String> {
    let Some((b'"', mut rest)) = value.split_first().map(|(first, rest)| (*first, rest)) else {
        let is_bare = |byte: &u8| byte.is_ascii_graphic() && !b"\"\\,;".contains(byte);
        return value.iter().all(is_bare).then(|| String::from_utf8_lossy(value).into());
    };
    let mut text = String::new();
    loop {
        let (byte, after) = rest.split_first()?;
        rest = after;
        match byte {
            b'"' => return rest.is_empty().then_some(text),
            b'\\' => {
                let (escaped, after) = rest.split_first()?;
                rest = after;
                text.push(char::from(*b"\"\\".iter().find(|byte| *byte == escaped)?));
            }
            b' '..=b'~' => text.push(char::from(*byte)),
            _ => return None,
        }
    }
}
