//! What each key finds, and its error if it finds nothing.

use http::{HeaderName, HeaderValue, Method, Request};

use super::{error, get, name, some};
use crate::key;

fn with_headers(values: &[&[u8]]) -> Request<()> {
    let mut request = Request::new(());
    for value in values {
        let value = HeaderValue::from_bytes(value).unwrap();
        request.headers_mut().append("x-key", value);
    }
    request
}

#[test]
fn header_is_there_once_and_readable() {
    let cases: &[(&[&[u8]], _)] = &[
        (&[b"42"], some("42")),
        (&[b"a b"], some("a b")),
        (&["Kontó".as_bytes()], some("Kontó")),
        (&[b" 42\t"], some("42")),
        (&[], error("the header x-key is missing")),
        (&[b""], error("the header x-key is empty")),
        (&[b"  "], error("the header x-key is empty")),
        (&[b"42", b"42"], error("the header x-key is given more than once")),
        (&[b"", b"42"], error("the header x-key is given more than once")),
        (&[b"\xff"], error("the header x-key is not visible ASCII or UTF-8")),
        (&[b"a\tb"], error("the header x-key is not visible ASCII or UTF-8")),
        (&["a\u{85}b".as_bytes()], error("the header x-key is not visible ASCII or UTF-8")),
    ];

    for (values, expected) in cases {
        assert_eq!(name(&key::header("X-Key"), &with_headers(values)), *expected, "{values:?}");
    }

    let constant = key::header(HeaderName::from_static("x-key"));
    assert_eq!(name(&constant, &with_headers(&[b"42"])), some("42"));
}

#[test]
fn segment_counts_from_zero_decoded_once() {
    let too_short = |i: usize| Err(format!("the path has no segment {i} (from 0)"));
    let empty = |i: usize| Err(format!("segment {i} of the path (from 0) is empty"));
    let unreadable = error("segment 1 of the path (from 0) is not UTF-8");
    let cases = [
        (0, "/accounts/42", some("accounts")),
        (1, "/accounts/42", some("42")),
        (1, "/accounts/42/", some("42")),
        (1, "/accounts/%34%32", some("42")),
        (1, "/accounts/%2534", some("%34")),
        (1, "/accounts/a%2Fb", some("a/b")),
        (1, "/accounts/a+b", some("a+b")),
        (1, "/accounts/%C3%A4", some("ä")),
        (1, "/accounts/100%", some("100%")),
        (1, "/accounts/%zz", some("%zz")),
        (1, "/accounts/42?x=/y", some("42")),
        (1, "http://host/accounts/42", some("42")),
        (2, "/accounts/42", too_short(2)),
        (1, "*", too_short(1)),
        (0, "host:80", too_short(0)),
        (0, "/", empty(0)),
        (0, "//x", empty(0)),
        (1, "/accounts/", empty(1)),
        (2, "/accounts/42/", empty(2)),
        (1, "/accounts/%FF", unreadable.clone()),
        (1, "/accounts/%C3", unreadable),
        (1, "/accounts/%0A", error("a resource's name has a control character at byte 0")),
    ];

    for (i, uri, expected) in cases {
        let mut request = get("/");
        *request.uri_mut() = uri.parse().unwrap();
        assert_eq!(name(&key::path_segment(i), &request), expected, "segment {i} of {uri}");
    }
}

#[test]
fn query_parameter_is_unique_and_decoded() {
    let none = error("the query has no parameter id");
    let empty = error("the query's parameter id is empty");
    let twice = error("the query has the parameter id more than once");

    let cases = [
        ("/?id=42", some("42")),
        ("/?a=1&id=42&b", some("42")),
        ("/?id=a+b", some("a b")),
        ("/?id=a%2Bb", some("a+b")),
        ("/?id=%2534", some("%34")),
        ("/?id=a=b", some("a=b")),
        ("/?%69d=42", some("42")),
        ("/?id=1;id=2", some("1;id=2")),
        ("/?id=%C3%A4", some("ä")),
        ("/", none.clone()),
        ("/?", none.clone()),
        ("/?ids=42&Id=42", none),
        ("/?id=", empty.clone()),
        ("/?id", empty),
        ("/?id=1&id=1", twice.clone()),
        ("/?id=1&%69d=2", twice.clone()),
        ("/?id=1&id", twice),
        ("/?id=%FF", error("the query's parameter id is not UTF-8")),
    ];

    for (uri, expected) in cases {
        assert_eq!(name(&key::query("id"), &get(uri)), expected, "{uri}");
    }
    assert_eq!(name(&key::query("a b"), &get("/?a+b=1")), some("1"));
}

#[test]
fn method_and_path_are_one_name() {
    let cases = [
        (Method::POST, "/accounts/42", some("POST /accounts/42")),
        (Method::GET, "/accounts/42?now", some("GET /accounts/42")),
        (Method::GET, "/%61%2f%2e%7e", some("GET /a%2F.~")),
        (Method::GET, "/a%2fb/../c//", some("GET /a%2Fb/../c//")),
        (Method::GET, "/a+b;c=%3b", some("GET /a+b;c=;")),
        (Method::GET, "/a%3Ab%40%21", some("GET /a:b@!")),
        (Method::GET, "/%25%34%31", some("GET /%2541")),
        (Method::GET, "/%%34%31", some("GET /%2541")),
        (Method::GET, "/100%", some("GET /100%25")),
        (Method::GET, "/ä", some("GET /%C3%A4")),
        (Method::GET, "/%c3%a4", some("GET /%C3%A4")),
        (Method::GET, "/{a}", some("GET /%7Ba%7D")),
        (Method::GET, "/%00", some("GET /%00")),
        (Method::GET, "http://host", some("GET /")),
        (Method::OPTIONS, "*", some("OPTIONS *")),
        (Method::CONNECT, "host:80", error("the request has no path")),
    ];
    for (method, uri, expected) in cases {
        let request = Request::builder().method(method).uri(uri).body(()).unwrap();
        assert_eq!(name(&key::method_and_path(), &request), expected, "{uri}");
    }
}

#[derive(Clone)]
struct Principal(&'static str);

#[test]
fn an_extension_gives_names_or_none() {
    let key = key::extension(|Principal(id): &Principal| (!id.is_empty()).then_some([*id, "all"]));
    let missing = name(&key, &get("/")).unwrap_err();

    assert!(missing.contains("tests::found::Principal"), "{missing}");

    let with = |id| {
        let mut request = get("/");
        request.extensions_mut().insert(Principal(id));
        request
    };

    assert_eq!(name(&key, &with("ann")), some("all + ann"));
    assert_eq!(name(&key, &with("")), Ok(None));
    assert_eq!(name(&key.optional(), &get("/")), Ok(None));

    let fails = key::extension(|_: &Principal| Err::<String, _>(crate::layer::KeyError::new("no")));
    assert_eq!(name(&fails.optional(), &with("ann")), error("no"));
}

#[test]
fn no_text_quotes_the_request() {
    let secret = "s3cret".repeat(100);
    let request = Request::get(format!("/{secret}%FF?id={secret}&id={secret}"))
        .header("x-key", format!("{secret}\u{85}"))
        .body(())
        .unwrap();

    let texts = [
        name(&key::header("x-key"), &request).unwrap_err(),
        name(&key::path_segment(0), &request).unwrap_err(),
        name(&key::query("id"), &request).unwrap_err(),
        name(&key::method_and_path(), &request).unwrap_err(),
        format!("{:?}", key::query("id").hashed_with(&secret)),
    ];

    for text in texts {
        assert!(!text.contains("s3cret"), "{text}");
    }
}

#[test]
fn constant_names_every_request() {
    let key = key::constant("export").prefixed("job:");
    for request in [get("/a"), get("/b?c=d")] {
        assert_eq!(name(&key, &request), some("job:export"));
    }
    let invalid = std::panic::catch_unwind(|| key::constant(""));
    assert!(invalid.is_err(), "an empty name is refused where the key is made");
}
