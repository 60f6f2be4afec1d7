//! Decoding of a request's text, and escaping of the parts of names.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// Decodes percent-encoding exactly once, as axum does: a `%` without two hexadecimal digits stays.
/// `None` if the result is not UTF-8.
pub(super) fn percent_decoded(text: &str) -> Option<Cow<'_, str>> {
    percent_decode_str(text).decode_utf8().ok()
}

/// Decodes a name or a value of a query: like [`percent_decoded`], and `+` is a space.
pub(super) fn form_decoded(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('+') {
        return percent_decoded(text);
    }
    // Done before percent-decoding, as `%2B` is a plus sign.
    let spaced = text.replace('+', " ");
    percent_decoded(&spaced).map(|text| Cow::Owned(text.into_owned()))
}

/// Escapes a name as a part of another: `:`, which separates parts, and `%` are percent-encoded, so
/// that different lists of parts never make the same name.
pub(super) fn part(name: Cow<'_, str>) -> Cow<'_, str> {
    if name.contains([':', '%']) {
        Cow::Owned(name.replace('%', "%25").replace(':', "%3A"))
    } else {
        name
    }
}

/// The value that a query or a form has under a name.
pub(super) enum FormValue<'r> {
    Absent,
    One(Cow<'r, str>),
    Twice,
    /// The value is not UTF-8.
    Invalid,
}

pub(super) fn form_value<'r>(form: &'r str, name: &str) -> FormValue<'r> {
    let pairs = form.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let mut values = pairs.filter(|(key, _)| form_decoded(key).is_some_and(|key| key == name));
    match (values.next(), values.next()) {
        (None, _) => FormValue::Absent,
        (Some(_), Some(_)) => FormValue::Twice,
        (Some((_, value)), None) => form_decoded(value).map_or(FormValue::Invalid, FormValue::One),
    }
}
