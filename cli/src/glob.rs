//! Patterns for names: `*` stands for any text, `?` for any one character, `\` takes the next character
//! as it is.

use std::convert::Infallible;

/// A pattern that a whole name matches or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Glob(Vec<Part>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Char(char),
    AnyChar,
    AnyText,
}

impl Glob {
    /// Parses a pattern; every text is one.
    #[expect(clippy::unnecessary_wraps, reason = "as clap wants its parsers")]
    pub(crate) fn parse(pattern: &str) -> Result<Self, Infallible> {
        let mut chars = pattern.chars();
        let mut parts = Vec::new();
        while let Some(c) = chars.next() {
            parts.push(match c {
                '*' => Part::AnyText,
                '?' => Part::AnyChar,
                '\\' => Part::Char(chars.next().unwrap_or('\\')),
                c => Part::Char(c),
            });
        }
        Ok(Self(parts))
    }

    /// Returns whether the name matches. Takes time in proportion to the product of both lengths at
    /// most.
    pub(crate) fn matches(&self, name: &str) -> bool {
        let (parts, name) = (&self.0, name.chars().collect::<Vec<_>>());
        let (mut part, mut at) = (0, 0);
        // Behind the last `*`, and up to where its text goes so far.
        let mut last: Option<(usize, usize)> = None;
        while at < name.len() {
            match parts.get(part) {
                Some(Part::AnyText) => {
                    part += 1;
                    last = Some((part, at));
                }
                Some(Part::AnyChar) => (part, at) = (part + 1, at + 1),
                Some(Part::Char(c)) if *c == name[at] => (part, at) = (part + 1, at + 1),
                _ => match &mut last {
                    Some((behind, end)) => {
                        *end += 1;
                        (part, at) = (*behind, *end);
                    }
                    None => return false,
                },
            }
        }
        parts[part..].iter().all(|part| *part == Part::AnyText)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Glob, Part};

    fn matches(pattern: &str, name: &str) -> bool {
        let Ok(glob) = Glob::parse(pattern);
        glob.matches(name)
    }

    #[test]
    fn whole_names_match() {
        for (pattern, name) in [
            ("", ""),
            ("*", ""),
            ("*", "anything"),
            ("invoice:*", "invoice:42"),
            ("*:42", "invoice:42"),
            ("i*:4?", "invoice:42"),
            ("a*b*c", "aXbYbZc"),
            ("?", "京"),
            (r"\*", "*"),
            (r"a\?", "a?"),
            ("a\\", "a\\"),
        ] {
            assert!(matches(pattern, name), "{pattern:?} {name:?}");
        }
    }

    #[test]
    fn other_names_do_not() {
        for (pattern, name) in [
            ("", "a"),
            ("?", ""),
            ("invoice", "invoice:42"),
            ("42", "invoice:42"),
            ("a*b", "aXc"),
            ("a*b*c", "aXcYb"),
            (r"\*", "a"),
            ("A", "a"),
        ] {
            assert!(!matches(pattern, name), "{pattern:?} {name:?}");
        }
    }

    /// The definition, in exponential time.
    fn defined(parts: &[Part], name: &[char]) -> bool {
        match (parts.split_first(), name.split_first()) {
            (None, None) => true,
            (Some((Part::AnyText, rest)), _) => {
                (0..=name.len()).any(|end| defined(rest, &name[end..]))
            }
            (None, Some(_)) | (Some(_), None) => false,
            (Some((Part::AnyChar, rest)), Some((_, left))) => defined(rest, left),
            (Some((Part::Char(c), rest)), Some((d, left))) => c == d && defined(rest, left),
        }
    }

    proptest! {
        #[test]
        fn matches_as_defined(pattern in r"[ab*?\\]{0,8}", name in "[ab*]{0,10}") {
            let Ok(glob) = Glob::parse(&pattern);
            let chars: Vec<_> = name.chars().collect();
            prop_assert_eq!(glob.matches(&name), defined(&glob.0, &chars));
        }
    }

    #[test]
    fn many_stars_are_fast() {
        assert!(!matches(&"a*".repeat(50), &format!("{}b", "a".repeat(40))));
        assert!(!matches(&format!("{}b", "*a".repeat(200)), &"a".repeat(512)));
    }
}
