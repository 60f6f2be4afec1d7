//! All percent-encodings of a path are one name, and no other path has that name.

use http::Request;
use percent_encoding::percent_decode_str;
use proptest::{collection::vec, prelude::*};

use super::{name, some};
use crate::key::{self, head_sources::normalise};

fn request(uri: &str) -> Request<()> {
    Request::get(uri).body(()).unwrap()
}

fn encode(byte: u8, lower: bool) -> String {
    if lower { format!("%{byte:02x}") } else { format!("%{byte:02X}") }
}

/// A spelling of a text: each byte is unencoded if that is allowed, or encoded, as the dice decide.
fn spelled(text: &str, dice: &[u8]) -> String {
    spelled_bytes(text.as_bytes(), dice)
}

fn spelled_bytes(text: &[u8], dice: &[u8]) -> String {
    let dice = dice.iter().copied().chain(std::iter::repeat(0));
    let spell = |(byte, dice): (u8, u8)| {
        let plain = byte.is_ascii_alphanumeric() && dice % 3 == 0;
        if plain { char::from(byte).to_string() } else { encode(byte, dice % 2 == 0) }
    };
    text.iter().copied().zip(dice).map(spell).collect()
}

fn normalised(path: &str) -> String {
    let mut text = String::new();
    normalise(path, &mut text);
    text
}

/// The decoded segments of a path, as a router sees them.
fn segments(path: &str) -> Vec<Vec<u8>> {
    path.split('/').map(|segment| percent_decode_str(segment).collect()).collect()
}

fn text() -> impl Strategy<Value = String> {
    "[a-z0-9%/+äß€ .~-]{1,20}"
}

/// Any text that may arrive as a path, including broken escapes.
fn path() -> impl Strategy<Value = String> {
    "/([a-zA-Z0-9/%._~:@!+;=ä-]|%[0-9a-fA-F]{2}|%[0-9]){0,20}"
}

proptest! {
    #[test]
    fn segment_spellings_are_one_name(text in text(), dice in vec(any::<u8>(), 60)) {
        let uri = format!("/accounts/{}", spelled(&text, &dice));
        prop_assert_eq!(name(&key::path_segment(1), &request(&uri)), some(&text));
        let uri = format!("/?id={}", spelled(&text, &dice));
        prop_assert_eq!(name(&key::query("id"), &request(&uri)), some(&text));
    }

    #[test]
    fn a_segment_is_not_decoded_twice(text in text(), dice in vec(any::<u8>(), 60)) {
        let once = spelled(&text, &dice);
        let twice = spelled(&once, &[1; 400]);
        let request = request(&format!("/{twice}?id={twice}"));
        prop_assert_eq!(name(&key::path_segment(0), &request), some(&once));
        prop_assert_eq!(name(&key::query("id"), &request), some(&once));
    }

    #[test]
    fn normalising_is_idempotent(path in path()) {
        let once = normalised(&path);
        prop_assert_eq!(segments(&once), segments(&path));
        prop_assert_eq!(normalised(&once), once.clone());
        prop_assert!(once.bytes().all(|byte| byte.is_ascii_graphic()));
    }

    #[test]
    fn equal_paths_are_normalised_to_one(text in "[a-zA-Z0-9._~äß-]{0,20}", dice in vec(any::<u8>(), 60)) {
        let all_encoded: String = text.bytes().map(|byte| encode(byte, false)).collect();
        prop_assert_eq!(normalised(&spelled(&text, &dice)), normalised(&all_encoded));
        prop_assert_eq!(normalised(&text), normalised(&all_encoded));
    }

    /// Uses a model of a router that splits the path and decodes the parts.
    #[test]
    fn equal_paths_normalise_to_one(path in path(), dice in vec(any::<u8>(), 100)) {
        let parts = segments(&path).into_iter().map(|part| spelled_bytes(&part, &dice));
        let other = parts.collect::<Vec<_>>().join("/");
        prop_assert_eq!(segments(&other), segments(&path));
        prop_assert_eq!(normalised(&other), normalised(&path));
    }

    #[test]
    fn different_paths_stay_different(a in path(), b in path()) {
        prop_assume!(segments(&a) != segments(&b));
        prop_assert_ne!(normalised(&a), normalised(&b));
    }

    #[test]
    fn no_request_makes_a_key_panic(path in path(), query in "[a-z=&%+]{0,20}", i in 0..4_usize) {
        if let Ok(request) = Request::get(format!("{path}?{query}")).body(()) {
            let keys = key::all((key::path_segment(i).optional(), key::query("a").optional()));
            if let Ok(Some(names)) = name(&keys, &request) {
                prop_assert!(!names.is_empty());
            }
        }
    }
}
