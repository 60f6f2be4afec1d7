//! The header `Idempotency-Key`.

use http::{HeaderValue, Request};

use super::{error, name, some};
use crate::key;

fn of(values: &[&[u8]]) -> Result<Option<String>, String> {
    let mut request = Request::new(());
    for value in values {
        let value = HeaderValue::from_bytes(value).unwrap();
        request.headers_mut().append("Idempotency-Key", value);
    }
    name(&key::idempotency_key(), &request)
}

fn fault(text: &str) -> Result<Option<String>, String> {
    error(&format!("the header idempotency-key {text}"))
}

#[test]
fn quotes_do_not_change_the_name() {
    let uuid = "8e03978e-40d5-43e8-bc93-6894a57f9324";

    assert_eq!(of(&[uuid.as_bytes()]), some(uuid));
    assert_eq!(of(&[format!("\"{uuid}\"").as_bytes()]), some(uuid));

    let cases: [(&[u8], _); 26] = [
        (b" \t\"a b\"\t", some("a b")),
        (b"  a ", some("a")),
        (br#""a\"b\\c""#, some(r#"a"b\c"#)),
        (br#""\\""#, some("\\")),
        (br#""a,b;c=d""#, some("a,b;c=d")),
        (b"a:b/c=d+e_f~", some("a:b/c=d+e_f~")),
        (br#""  ""#, some("  ")),
        (b"", fault("is empty")),
        (b" ", fault("is empty")),
        (br#""""#, fault("is empty")),
        (br#"""#, fault("has no closing quote")),
        (br#""a"#, fault("has no closing quote")),
        (br#""a\""#, fault("has no closing quote")),
        (br#""a\"#, fault("has a backslash before neither a quote nor a backslash")),
        (br#""a\b""#, fault("has a backslash before neither a quote nor a backslash")),
        (b"\"a\tb\"", fault("has a control character")),
        (b"\"\\\\\tb\"", fault("has a control character")),
        (br#""a" "#, some("a")),
        (br#""a";v=1"#, fault("has text after its closing quote")),
        (br#""a", "b""#, fault("has text after its closing quote")),
        (br#""\\", "b""#, fault("has text after its closing quote")),
        (b"a, b", fault("is not a string in double quotes")),
        (b"a,b", fault("is not a string in double quotes")),
        (b"a;v=1", fault("is not a string in double quotes")),
        (b"a\"b", fault("is not a string in double quotes")),
        (b"a\\b", fault("is not a string in double quotes")),
    ];

    for (value, expected) in cases {
        assert_eq!(of(&[value]), expected, "{:?}", String::from_utf8_lossy(value));
    }
    assert_eq!(of(&["\"ä\"".as_bytes()]), fault("is not ASCII"));
    assert_eq!(of(&[b"\xff"]), fault("is not ASCII"));
    assert_eq!(of(&[b"a\tb"]), fault("is not a string in double quotes"));
}

#[test]
fn it_is_there_once() {
    assert_eq!(of(&[]), fault("is missing"));
    assert_eq!(of(&[b"a", b"a"]), fault("is given more than once"));
    assert_eq!(of(&[b"", b"a"]), fault("is given more than once"));
    let optional = key::idempotency_key().optional();
    assert_eq!(name(&optional, &Request::new(())), Ok(None));
}

#[test]
fn value_has_at_most_255_bytes() {
    let longest = "x".repeat(255);
    assert_eq!(of(&[longest.as_bytes()]), some(&longest));
    assert_eq!(of(&[format!("\"{longest}\"").as_bytes()]), some(&longest));
    let escaped = format!("\"{}\"", "\\\\".repeat(255));
    assert_eq!(of(&[escaped.as_bytes()]), some(&"\\".repeat(255)));
    let too_long = fault("is longer than 255 bytes");
    assert_eq!(of(&[format!("{longest}x").as_bytes()]), too_long);
    assert_eq!(of(&[format!("\"{longest}x\"").as_bytes()]), too_long);
}
