//! Names from bodies.

use http::{Method, Request};

use super::{error, get, some};
use crate::{
    key::{self, BodyKey, RequestHead},
    layer::{KeyError, ResourceKey},
};

fn name_in(
    key: &impl BodyKey,
    request: &Request<()>,
    body: impl AsRef<[u8]>,
) -> Result<Option<String>, String> {
    let resource = key.body_key(&RequestHead::from(request), body.as_ref());
    let resource = resource.map_err(|error| error.to_string())?;
    Ok(resource.map(|resource| resource.to_string()))
}

fn at(pointer: &'static str, body: impl AsRef<[u8]>) -> Result<Option<String>, String> {
    name_in(&key::json_pointer(pointer), &get("/"), body)
}

#[test]
fn string_or_integer_is_name() {
    let other = error("the value at /id in the body is neither a string nor an integer");
    let nothing = error("the body has no value at /id");

    let cases = [
        (r#"{"id": "evt_1"}"#, some("evt_1")),
        (r#"{"a": [{"id": 1}], "id": "x", "b": {"id": 2}}"#, some("x")),
        (r#"{"\u0069d": "\u00e4\/"}"#, some("ä/")),
        (r#"{"id": 42}"#, some("42")),
        (r#"{"id": "42"}"#, some("42")),
        (r#"{"id": -7}"#, some("-7")),
        (r#"{"id": 0}"#, some("0")),
        (r#"{"id": 18446744073709551615}"#, some("18446744073709551615")),
        (r#"{"id": -9223372036854775808}"#, some("-9223372036854775808")),
        (r#"{"id": 18446744073709551616}"#, other.clone()),
        (r#"{"id": -9223372036854775809}"#, other.clone()),
        (r#"{"id": 1.0}"#, other.clone()),
        (r#"{"id": 1e3}"#, other.clone()),
        (r#"{"id": true}"#, other.clone()),
        (r#"{"id": ["x"]}"#, other.clone()),
        (r#"{"id": {"x": 1}, "more": 2}"#, other.clone()),
        (r#"{"id": {}}"#, other),
        (r#"{"id": null}"#, nothing.clone()),
        (r#"{"ID": 1, "id ": 2, "": 3}"#, nothing.clone()),
        ("{}", nothing.clone()),
        ("[]", nothing.clone()),
        (r#""id""#, nothing.clone()),
        ("7", nothing.clone()),
        ("null", nothing),
        (r#"{"id": ""}"#, error("the body has an empty string at /id")),
        (r#"{"id": "a\nb"}"#, error("a resource's name has a control character at byte 1")),
    ];

    for (body, expected) in cases {
        assert_eq!(at("/id", body), expected, "{body}");
    }
}

#[test]
fn pointer_goes_through_members_and_elements() {
    // The document of RFC 6901, section 5, with strings for all values.
    let document = r#"{"foo": ["bar", "baz"], "": "0", "a/b": "1", "c%d": "2", "e^f": "3",
        "g|h": "4", "i\\j": "5", "k\"l": "6", " ": "7", "m~n": "8"}"#;
    let cases = [
        ("/foo/0", "bar"),
        ("/foo/1", "baz"),
        ("/", "0"),
        ("/a~1b", "1"),
        ("/c%d", "2"),
        ("/e^f", "3"),
        ("/g|h", "4"),
        ("/i\\j", "5"),
        ("/k\"l", "6"),
        ("/ ", "7"),
        ("/m~0n", "8"),
    ];

    for (pointer, expected) in cases {
        assert_eq!(at(pointer, document), some(expected), "{pointer}");
    }
    for pointer in ["/foo/2", "/foo/-", "/foo/00", "/foo/01", "/foo/+1", "/foo/", "/foo/0/0"] {
        assert_eq!(at(pointer, document), Err(format!("the body has no value at {pointer}")));
    }
    assert_eq!(at("", "7"), some("7"));
    assert_eq!(at("", r#""x""#), some("x"));
    assert_eq!(at("", "null"), error("the body has no value at its root"));
    assert_eq!(at("/~01", r#"{"~1": "x", "/": "y"}"#), some("x"));
    assert_eq!(at("/0", r#"{"0": "member"}"#), some("member"));
}

#[test]
fn duplicate_member_is_rejected() {
    let twice = |pointer| Err(format!("the body has more than one value at {pointer}"));
    assert_eq!(at("/id", r#"{"id": 1, "id": 1}"#), twice("/id"));
    assert_eq!(at("/id", r#"{"id": 1, "x": 2, "\u0069d": 3, "id": 4}"#), twice("/id"));
    assert_eq!(at("/a/id", r#"{"a": null, "a": {"id": 1}}"#), twice("/a/id"));
    assert_eq!(at("/a/id", r#"{"a": {"id": 1}, "a": 0}"#), twice("/a/id"));
    assert_eq!(at("/a/id", r#"{"a": {"id": 1}, "b": 1, "b": 2}"#), some("1"), "beside the way");
}

#[test]
fn optional_pointer_still_refuses_invalid_json() {
    let bodies: [&[u8]; 10] = [
        b"id=7",
        b"{\"id\": 7",
        b"{\"id\": 7} x",
        b"{\"id\": 7}{\"id\": 8}",
        b"{\"id\": 7,}",
        b"{\"id\": 07}",
        b"{\"a\": [1, }, \"id\": 7}",
        b"{\"id\": \"\xff\"}",
        b"{\"a\": \"\xff\", \"id\": 7}",
        b"\xef\xbb\xbf{\"id\": 7}",
    ];
    let key = key::json_pointer("/id").optional();

    for body in bodies {
        let text = name_in(&key, &get("/"), body).unwrap_err();
        assert!(text.starts_with("the body is not JSON: "), "{text}");
    }

    assert_eq!(at("/id", "{\n  id"), error("the body is not JSON: see line 2, column 3"));
    for nothing in ["", " \n", "{}"] {
        assert_eq!(name_in(&key, &get("/"), nothing), Ok(None), "{nothing:?}");
    }
    assert_eq!(at("/id", ""), error("the body is empty"));
    assert_eq!(name_in(&key, &get("/"), r#"{"id": null}"#), Ok(None));
}

#[test]
fn deep_nesting_is_skipped() {
    let deep = |n: usize| format!("{{\"a\": {}1{}, \"id\": 7}}", "[".repeat(n), "]".repeat(n));
    assert_eq!(at("/id", deep(500_000)), some("7"));
}

#[test]
fn body_key_combines_with_head_keys() {
    let request = Request::post("/hooks/acme").header("x-shop", "s1").body(()).unwrap();
    let body = r#"{"id": 7}"#;
    let id = || key::json_pointer("/id");

    let all = key::all((key::path_segment(1).prefixed("a:"), key::header("x-shop"), id()));

    assert_eq!(name_in(&all, &request, body), some("7 + a:acme + s1"));
    assert_eq!(name_in(&id().prefixed("stripe:"), &request, body), some("stripe:7"));
    assert_eq!(name_in(&id().parsed::<u8>(), &request, r#"{"id": "007"}"#), some("7"));

    let hashed = name_in(&id().hashed(), &request, body).unwrap().unwrap();
    assert_eq!(hashed, "7902699be42c8a8e46fbbb4501726517e86b22c56a189f7625a6da49081b2451");

    let long = format!("{{\"id\": {:?}}}", "x".repeat(513));
    let text = name_in(&id(), &request, &long).unwrap_err();
    assert_eq!(text, "a resource's name has at most 512 bytes, this one has 513");
    assert_eq!(name_in(&id().hashed(), &request, &long).unwrap().unwrap().len(), 64);
    assert_eq!(name_in(&id().only([Method::PUT]), &request, "no JSON"), Ok(None));
    assert_eq!(name_in(&id().when(|_| false), &request, "no JSON"), Ok(None));

    let head = key::header("x-shop");
    assert_eq!(name_in(&head, &request, b""), some("s1"), "keys of heads are keys of bodies");
    assert_eq!(head.key(&request), head.body_key(&RequestHead::from(&request), b""));
}

#[test]
fn closures_are_keys_of_bodies() {
    let first = |head: &RequestHead<'_>, body: &[u8]| match body.first() {
        Some(byte) => Ok(Some([format!("{}:{byte}", head.uri()), "all".to_owned()])),
        None => Err(KeyError::new("the body is empty")),
    };
    assert_eq!(name_in(&first, &get("/x"), b"\x07"), some("/x:7 + all"));
    assert_eq!(name_in(&first, &get("/x"), b""), error("the body is empty"));
    let none = |_: &RequestHead<'_>, _: &[u8]| None::<String>;
    assert_eq!(name_in(&none, &get("/x"), b""), Ok(None));
}

#[test]
fn no_error_quotes_the_body() {
    for body in [
        r#"{"id": s3cret}"#,
        r#"{"id": ["s3cret"]}"#,
        r#"{"id": {"s3cret": 1}}"#,
        r#"{"s3cret": 1}"#,
        r#"{"id": "s3cret", "id": "s3cret"}"#,
        "{\"id\": \"s3cret\n\"}",
        r#"{"id": "s3cret\n"}"#,
    ] {
        let text = at("/id", body).unwrap_err();
        assert!(!text.contains("s3cret"), "{text}");
    }
}

#[test]
fn invalid_pointer_panics_when_made() {
    for pointer in ["id", "#/id", "/a~", "/a~2", "/~x"] {
        assert!(std::panic::catch_unwind(|| key::json_pointer(pointer)).is_err(), "{pointer}");
    }
}

#[test]
fn form_field_is_name() {
    let form = |body: &str| {
        let mut request = get("/");
        let kind = "Application/X-WWW-Form-Urlencoded; charset=UTF-8".parse().unwrap();
        request.headers_mut().insert(http::header::CONTENT_TYPE, kind);
        name_in(&key::form_field("Message Sid"), &request, body)
    };
    for (body, expected) in [
        ("Message+Sid=SM1", some("SM1")),
        ("a=1&Message%20Sid=S+M%2B%26&b", some("S M+&")),
        ("Message+Sid=a=b", some("a=b")),
        ("Message+Sid=%C3%A4", some("ä")),
        ("message+sid=1", error("the form has no field Message Sid")),
        ("{\"Message Sid\": 1}", error("the form has no field Message Sid")),
        (" \r\n", error("the body is empty")),
        ("Message+Sid=", error("the form's field Message Sid is empty")),
        ("Message+Sid", error("the form's field Message Sid is empty")),
        ("Message+Sid=%FF", error("the form's field Message Sid is not UTF-8")),
        (
            "Message+Sid=1&Message%20Sid=1",
            error("the form has the field Message Sid more than once"),
        ),
        ("Message+Sid=1\n", error("a resource's name has a control character at byte 1")),
    ] {
        assert_eq!(form(body), expected, "{body:?}");
    }
}

#[test]
fn bodies_other_than_forms_are_rejected() {
    let key = key::form_field("id").optional();
    let with = |name: &'static str, value: &'static str| {
        let mut request = get("/");
        request.headers_mut().insert(name, value.parse().unwrap());
        request
    };

    let no_form =
        error("the body is not a form: its content-type is not application/x-www-form-urlencoded");

    assert_eq!(name_in(&key, &get("/"), "id=7"), no_form);
    assert_eq!(name_in(&key, &with("content-type", "application/json"), "id=7"), no_form);

    let text = name_in(&key, &with("content-encoding", "gzip"), "\u{1f}").unwrap_err();
    assert!(text.starts_with("the body is encoded as gzip"), "{text}");

    let form = with("content-type", "application/x-www-form-urlencoded");
    assert_eq!(name_in(&key, &form, "other=7"), Ok(None));
    assert_eq!(name_in(&key, &get("/"), ""), Ok(None));
    assert_eq!(name_in(&key, &form, b"id=\xff"), error("the form is not UTF-8"));
}
