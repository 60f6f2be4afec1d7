use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// Decodes percent-encoding exactly once, as axum does: a `%` without two hexadecimal digits stays.
/// `None` if what comes out is no UTF-8.
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
