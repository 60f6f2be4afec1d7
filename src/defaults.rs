//! The defaults that the guide names, for tests of their values.

use std::{fmt::Debug, time::Duration};

const PAGE: &str = include_str!("../docs/README.md");

/// Checks that the guide names this default of a setting.
#[track_caller]
pub(crate) fn assert_documented(setting: &str, default: &str) {
    let row = PAGE.lines().find_map(|line| line.strip_prefix(&format!("| `{setting}` | ")));
    let row = row.unwrap_or_else(|| panic!("docs/README.md has no row for {setting}"));
    let (documented, _) = row.split_once(" |").expect("a cell");
    assert_eq!(documented, default, "the default of {setting} in docs/README.md");
}

/// An enum's default, as a user writes it.
pub(crate) fn variant(kind: &str, value: impl Debug) -> String {
    format!("`{kind}::{value:?}`")
}

pub(crate) fn duration(value: Duration) -> String {
    match (value.as_secs(), value.subsec_millis()) {
        (0, 0) => "0".into(),
        (0, millis) => format!("{millis} ms"),
        (seconds @ ..60, 0) => format!("{seconds} s"),
        (seconds @ ..3_600, 0) => format!("{} min", seconds / 60),
        (seconds @ ..864_000, 0) => format!("{} h", seconds / 3_600),
        (seconds, _) => format!("{} days", seconds / 86_400),
    }
}

pub(crate) fn number(value: usize) -> String {
    let digits = value.to_string();
    let first = digits.len() % 3;
    let groups = digits.as_bytes()[first..]
        .chunks(3)
        .map(|group| std::str::from_utf8(group).expect("ASCII"));
    let groups: Vec<_> =
        (first > 0).then_some(&digits[..first]).into_iter().chain(groups).collect();
    groups.join(",")
}

pub(crate) fn bytes(value: usize) -> String {
    match value {
        ..0x10_0000 => format!("{} KiB", value >> 10),
        _ => format!("{} MiB", value >> 20),
    }
}
