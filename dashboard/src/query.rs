//! The parameters of a request: of its address, or of a form.

use std::borrow::Cow;

/// Names and values, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Params(Vec<(String, String)>);

impl Params {
    pub(crate) fn parse(encoded: &[u8]) -> Self {
        Self(form_urlencoded::parse(encoded).into_owned().collect())
    }

    /// The first value of this name, without white space around it; `None` if it is empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let value = self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value.trim());
        value.filter(|value| !value.is_empty())
    }

    /// The first value of this name as it is: names of locks may begin with a space.
    pub(crate) fn exact(&self, name: &str) -> Option<&str> {
        let value = self.0.iter().find(|(other, _)| other == name).map(|(_, value)| &**value);
        value.filter(|value| !value.is_empty())
    }

    pub(crate) fn number(&self, name: &str) -> Option<usize> {
        self.get(name)?.parse().ok()
    }

    /// Those of these names that are not empty, each once.
    pub(crate) fn only<'a>(
        &'a self,
        names: &'a [&'a str],
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        names.iter().filter_map(|name| Some((*name, self.exact(name)?)))
    }
}

/// Returns a relative address with parameters.
pub(crate) fn link(page: &str, params: &[(&str, &str)]) -> String {
    if params.is_empty() {
        return page.to_owned();
    }
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(params).finish();
    format!("{page}?{query}")
}

/// Returns as much of a text's beginning as fits into so many bytes.
pub(crate) fn beginning(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

/// Returns text with what can't be seen, or changes the direction of other text, made visible.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    let is_odd = |c: char| {
        c.is_control()
            || matches!(
                c,
                '\u{ad}'
                    | '\u{61c}'
                    | '\u{115f}'
                    | '\u{1160}'
                    | '\u{180e}'
                    | '\u{200b}'..='\u{200f}'
                    | '\u{2028}'..='\u{202e}'
                    | '\u{2060}'..='\u{206f}'
                    | '\u{3164}'
                    | '\u{feff}'
                    | '\u{ffa0}'
                    | '\u{e0000}'..='\u{e0fff}'
            )
    };
    if !text.contains(is_odd) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_odd(c) { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded() {
        let params = Params::parse(b"name=a%2Fb%20c&q=+x+&empty=&page=3&name=second");
        assert_eq!(params.get("name"), Some("a/b c"));
        assert_eq!((params.get("q"), params.exact("q")), (Some("x"), Some(" x ")));
        assert_eq!((params.get("empty"), params.get("else")), (None, None));
        assert_eq!((params.number("page"), params.number("name")), (Some(3), None));
        let kept: Vec<_> = params.only(&["page", "name", "empty", "else"]).collect();
        assert_eq!(kept, [("page", "3"), ("name", "a/b c")]);
    }

    #[test]
    fn links_are_encoded() {
        assert_eq!(link("locks", &[]), "locks");
        assert_eq!(
            link("lock", &[("name", "a/b&c=<d> é")]),
            "lock?name=a%2Fb%26c%3D%3Cd%3E+%C3%A9"
        );
    }

    #[test]
    fn invisible_characters_are_shown() {
        assert_eq!(visible("invoice:42 é 🦀 \"x\""), "invoice:42 é 🦀 \"x\"");
        assert_eq!(visible("a\u{202e}b\n\u{0}"), r"a\u{202e}b\n\u{0}");
    }
}
