//! Text from servers and command lines, which may contain any characters.

/// Characters that Rust's escapes change, and a terminal does not.
const HARMLESS: [char; 3] = ['"', '\'', '\\'];

/// Returns the text on one line, with control characters, line breaks, and characters that are
/// invisible or change the direction of text escaped.
pub(crate) fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for part in text.split_inclusive(HARMLESS) {
        let end = part.trim_end_matches(HARMLESS).len();
        shown.extend(part[..end].escape_debug());
        shown.push_str(&part[end..]);
    }
    shown
}

/// Returns the text [on one line](shown), or what stands for none.
pub(crate) fn shown_or(text: Option<&str>, none: &str) -> String {
    text.map_or_else(|| none.to_owned(), shown)
}

/// Returns these lines, indented.
pub(crate) fn indented(lines: impl IntoIterator<Item = String>) -> String {
    lines.into_iter().fold(String::new(), |text, line| text + "    " + &line + "\n")
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(shown("a\x1b[31mb\r\n\0\u{7f}\u{9b}"), r"a\u{1b}[31mb\r\n\0\u{7f}\u{9b}");
        // The direction of text, a mark of byte order, a separator of lines.
        assert_eq!(shown("\u{202e}\u{feff}\u{2028}"), r"\u{202e}\u{feff}\u{2028}");
    }

    #[test]
    fn printable_text_stays() {
        for text in ["", "invoice:42", r#"C:\x "a" 'b'"#, "Zürich 東京 🦀", "e\u{301}"] {
            assert_eq!(shown(text), text);
        }
    }
}
