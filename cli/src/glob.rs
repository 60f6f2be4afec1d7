//! Patterns for names: `*` stands for any text, `?` for any one character, `\` takes the next character
//! as it is.

use std::str::FromStr;

use regex::Regex;

/// A pattern that a whole name matches or not, in time proportional to the product of both lengths.
#[derive(Clone, Debug)]
pub(crate) struct Glob(Regex);

impl FromStr for Glob {
    type Err = regex::Error;

    /// Parses a pattern. Every text is valid, up to the size limit of [`Regex`].
    fn from_str(pattern: &str) -> Result<Self, Self::Err> {
        let mut chars = pattern.chars();
        let mut regex = String::from("(?s)^");
        while let Some(c) = chars.next() {
            match c {
                '*' => regex.push_str(".*"),
                '?' => regex.push('.'),
                '\\' => regex.push_str(&literal(chars.next().unwrap_or('\\'))),
                c => regex.push_str(&literal(c)),
            }
        }
        Regex::new(&(regex + "$")).map(Self)
    }
}

impl Glob {
    /// Returns the pattern that every name matches.
    pub(crate) fn any() -> Self {
        "*".parse().expect("a valid pattern")
    }

    pub(crate) fn matches(&self, name: &str) -> bool {
        self.0.is_match(name)
    }
}

fn literal(c: char) -> String {
    regex::escape(c.encode_utf8(&mut [0; 4]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Glob;

    fn matches(pattern: &str, name: &str) -> bool {
        pattern.parse::<Glob>().unwrap().matches(name)
    }

    #[test]
    fn whole_names_match() {
        for (pattern, name) in [
            ("", ""),
            ("*", ""),
            ("*", "anything"),
            ("*", "two\nlines"),
            ("invoice:*", "invoice:42"),
            ("*:42", "invoice:42"),
            ("i*:4?", "invoice:42"),
            ("a*b*c", "aXbYbZc"),
            ("?", "京"),
            (r"\*", "*"),
            (r"a\?", "a?"),
            ("a\\", "a\\"),
            ("[a.b](c)", "[a.b](c)"),
        ] {
            assert!(matches(pattern, name), "{pattern:?} {name:?}");
        }
    }

    #[test]
    fn other_names_do_not() {
        for (pattern, name) in [
            ("", "a"),
            ("", "\n"),
            ("?", ""),
            ("invoice", "invoice:42"),
            ("invoice", "invoice\n"),
            ("42", "invoice:42"),
            ("a*b", "aXc"),
            ("a*b*c", "aXcYb"),
            (r"\*", "a"),
            ("a.b", "aXb"),
            ("A", "a"),
        ] {
            assert!(!matches(pattern, name), "{pattern:?} {name:?}");
        }
    }

    /// The definition, in exponential time.
    fn defined(pattern: &[char], name: &[char]) -> bool {
        match (pattern, name) {
            ([], []) => true,
            (['*', rest @ ..], _) => (0..=name.len()).any(|end| defined(rest, &name[end..])),
            (['?', rest @ ..], [_, left @ ..]) => defined(rest, left),
            (['\\', c, rest @ ..] | [c, rest @ ..], [d, left @ ..]) => {
                c == d && defined(rest, left)
            }
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn matches_as_defined(pattern in r"[ab*?\\]{0,8}", name in r"[ab*\\]{0,10}") {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            prop_assert_eq!(matches(&pattern, &name), defined(&chars(&pattern), &chars(&name)));
        }
    }

    #[test]
    fn many_stars_are_fast() {
        assert!(!matches(&"a*".repeat(50), &format!("{}b", "a".repeat(40))));
        assert!(!matches(&format!("{}b", "*a".repeat(200)), &"a".repeat(512)));
    }
}
