//! All percent-encodings of a path are one name, and no other path has that name.

use percent_encoding::percent_decode_str;
use proptest::{collection::vec, prelude::*};

use crate::key::head_sources::normalise;

fn encode(byte: u8, lower: bool) -> String {
    if lower { format!("%{byte:02x}") } else { format!("%{byte:02X}") }
}

/// A spelling of a text: each byte is unencoded if that is allowed, or encoded, as the dice decide.
fn spelled(text: &[u8], dice: &[u8]) -> String {
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

/// Any text that may arrive as a path, including broken escapes.
fn path() -> impl Strategy<Value = String> {
    "/([a-zA-Z0-9/%._~:@!+;=ä-]|%[0-9a-fA-F]{2}|%[0-9]){0,20}"
}

proptest! {
    /// Uses a model of a router that splits the path and decodes the parts.
    #[test]
    fn equal_paths_normalise_to_one(path in path(), dice in vec(any::<u8>(), 100)) {
        let parts = segments(&path).into_iter().map(|part| spelled(&part, &dice));
        let other = parts.collect::<Vec<_>>().join("/");
        prop_assert_eq!(segments(&other), segments(&path));
        prop_assert_eq!(normalised(&other), normalised(&path));
        prop_assert!(normalised(&path).bytes().all(|byte| byte.is_ascii_graphic()));
    }

    #[test]
    fn different_paths_stay_different(a in path(), b in path()) {
        prop_assume!(segments(&a) != segments(&b));
        prop_assert_ne!(normalised(&a), normalised(&b));
    }
}
