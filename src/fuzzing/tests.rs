//! The fuzz targets over their corpora, over changed corpora, and over random bytes.

use std::{fs, path::Path};

use proptest::{
    collection::vec,
    prelude::*,
    sample::{Index, select},
};

/// Number of changed inputs for each target, and of random ones.
const CASES: u32 = 1_000;

/// The inputs of a target: the corpus, and inputs that failed before.
fn inputs(target: &str) -> Vec<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("verify/fuzz");
    let mut inputs = Vec::new();
    for folder in ["corpus", "found"] {
        let Ok(entries) = fs::read_dir(root.join(folder).join(target)) else { continue };
        inputs.extend(entries.map(|entry| fs::read(entry.unwrap().path()).unwrap()));
    }
    assert!(inputs.len() > 2, "{target} has no corpus");
    // Sorted, so that the seed of a failed case finds it again.
    inputs.sort_unstable();
    inputs
}

/// A change of an input: its position, the number of removed bytes, and the inserted piece.
type Change = (Index, usize, Piece);

#[derive(Clone, Debug)]
enum Piece {
    Bytes(Vec<u8>),
    /// A part of any input.
    Part(Index, Index, usize),
    /// A part of the same input, repeated.
    Again(usize, usize),
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let token = select(vec![
        "\r\n",
        "*-1\r\n",
        "$-1\r\n",
        "*2\r\n",
        ":18446744073709551615\r\n",
        "+",
        "-",
        " ",
        "\n",
        "%",
        "%25",
        "%C3",
        "ä",
        "\"",
        "\\",
        "\\u00",
        "/",
        "//",
        "..",
        ":",
        ";",
        ",",
        "#",
        "@",
        "?",
        "&",
        "{",
        "}",
        "[",
        "0",
        "-1",
        "9999999999",
        "1e999",
        "*/",
        "L",
        "W",
        "\u{0}",
        "\u{85}",
    ]);
    let piece = prop_oneof![
        Just(Piece::Bytes(Vec::new())),
        vec(any::<u8>(), 1..4).prop_map(Piece::Bytes),
        token.prop_map(|token| Piece::Bytes(token.into())),
        (any::<Index>(), any::<Index>(), 1..40_usize)
            .prop_map(|(i, at, len)| Piece::Part(i, at, len)),
        (1..40_usize, 2..20_usize).prop_map(|(len, times)| Piece::Again(len, times)),
    ];
    vec((any::<Index>(), 0..6_usize, piece), 1..5)
}

fn change(input: &mut Vec<u8>, inputs: &[Vec<u8>], (at, out, piece): Change) {
    let part = |of: &[u8], at: usize, len: usize| of[at..of.len().min(at + len)].to_vec();
    let at = at.index(input.len() + 1);
    let piece = match piece {
        Piece::Bytes(bytes) => bytes,
        Piece::Part(i, from, len) => {
            let other = i.get(inputs);
            part(other, from.index(other.len() + 1), len)
        }
        Piece::Again(len, times) => part(input, at, len).repeat(times),
    };
    let end = input.len().min(at + out);
    input.splice(at..end, piece);
}

macro_rules! targets {
    ($($target:ident)*) => {
        const NAMES: &[&str] = &[$(stringify!($target)),*];

        $(mod $target {
            use super::*;
            use crate::fuzzing::$target as target;

            #[test]
            fn corpus_holds() {
                for input in inputs(stringify!($target)) {
                    target(&input);
                }
            }

            #[test]
            fn changed_corpus_holds() {
                let inputs = inputs(stringify!($target));
                let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(CASES) };

                proptest!(config, |(i: Index, changes in changes())| {
                    let mut input = i.get(&inputs).clone();
                    for one in changes {
                        change(&mut input, &inputs, one);
                    }
                    target(&input);
                });
            }

            #[test]
            fn random_bytes_hold() {
                let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(CASES) };
                proptest!(config, |(input in vec(any::<u8>(), 0..200))| target(&input));
            }
        })*
    };
}

targets! {
    answers
    config
    cron
    documents
    headers
    idempotency_key
    json
    keys
    resp
    responses
    stored
    urls
}

#[test]
fn every_target_has_a_program() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("verify/fuzz");
    let programs = fs::read_dir(root.join("targets")).unwrap();
    let mut programs: Vec<_> =
        programs.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    programs.sort_unstable();

    let expected: Vec<_> = NAMES.iter().map(|name| format!("{name}.rs")).collect();

    assert_eq!(programs, expected);

    let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    for name in NAMES {
        assert!(manifest.contains(&format!("path = \"targets/{name}.rs\"")), "{name}");
    }
}
