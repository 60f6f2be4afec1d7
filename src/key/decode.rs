//! Decoding of a request's text, and escaping of the parts of names.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// Decodes percent-encoding exactly once, as axum does: a `%` without two hexadecimal digits stays.
/// `None` if the result is not UTF-8.
pub(super) fn percent_decoded(text: &str) -> Option<Cow<'_, str>> {
    percent_decode_str(text).decode_utf8().ok()
}

/// Decodes a name or a value of a query: as above, and `+` is a space.
pub(super) fn form_decoded(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('+') {
        return percent_decoded(text);
    }
    // Before the percents: `%2B` is a plus.
    let spaced = text.replace('+', " ");
    percent_decoded(&spaced).map(|text| Cow::Owned(text.into_owned()))
}

/// A name as a part of another: `:`, which separates parts, and `%` are percent-encoded, so that no
/// two lists of parts make one name.
pub(super) fn part(name: Cow<'_, str>) -> Cow<'_, str> {
    if name.contains([':', '%']) {
        Cow::Owned(name.replace('%', "%25").replace(':', "%3A"))
    } else {
        name
    }
}
