//! Texts and times as pages, forms and JSON have them.

use std::{
    borrow::Cow,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use humantime::format_rfc3339_millis;
use serde::Serializer;

/// Returns the longest beginning of a text with at most this number of bytes.
pub(crate) fn beginning(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

/// Characters that are invisible, or change the direction of other text.
fn is_odd(c: char) -> bool {
    const SINGLE: &str = "\u{ad}\u{61c}\u{115f}\u{1160}\u{180e}\u{3164}\u{feff}\u{ffa0}";
    let code = u32::from(c);
    c.is_control()
        || SINGLE.contains(c)
        || matches!(code, 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f | 0xe_0000..=0xe_0fff)
}

/// Returns text with the characters escaped that are invisible or change the direction of other text.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_odd) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_odd(c) { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    Cow::Owned(shown)
}

pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Returns milliseconds since the epoch; `None` before it.
pub(crate) fn unix_millis(at: SystemTime) -> Option<u64> {
    at.duration_since(UNIX_EPOCH).ok().map(millis)
}

#[expect(clippy::ref_option, reason = "serde passes a reference to the field")]
pub(crate) fn serialize_time<S: Serializer>(
    at: &Option<SystemTime>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match at.and_then(unix_millis) {
        Some(number) => serializer.serialize_u64(number),
        None => serializer.serialize_none(),
    }
}

/// The end of the year 9999, in seconds since the epoch: RFC 3339 has no later times.
const LAST: u64 = 253_402_300_799;

/// Returns a time as text (RFC 3339); `None` for a time that has none, as a server may store any number.
pub(crate) fn stamp(at: SystemTime) -> Option<String> {
    let since = at.duration_since(UNIX_EPOCH).ok()?;
    (since.as_secs() <= LAST).then(|| format_rfc3339_millis(at).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_characters_are_shown() {
        assert_eq!(visible("invoice:42 é 🦀 \"x\""), "invoice:42 é 🦀 \"x\"");
        assert_eq!(visible("a\u{202e}b\n\u{0}"), r"a\u{202e}b\n\u{0}");
        assert_eq!(visible("\u{3164}\u{e0001}"), r"\u{3164}\u{e0001}");
    }

    #[test]
    fn only_times_until_9999_have_text() {
        let at = UNIX_EPOCH + Duration::from_millis(1_500);
        assert_eq!(stamp(at).as_deref(), Some("1970-01-01T00:00:01.500Z"));
        let far = UNIX_EPOCH + Duration::from_millis(999_999_999_999_999_999);
        for at in [far, UNIX_EPOCH - Duration::from_secs(1)] {
            assert_eq!(stamp(at), None);
        }
    }
}
