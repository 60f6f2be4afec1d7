//! The standard output, with colours on a terminal only. A closed output ends the command.

use std::{fmt::Display, io::Write};

use serde_json::Value;

use super::stderr::say;
use crate::exit::Failure;

/// The form of the output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    pub(crate) json: bool,
}

impl Output {
    /// Prints a document of JSON over several lines, or the text.
    pub(crate) fn show(self, json: &Value, text: &str) -> Result<(), Failure> {
        if self.json { print(&format!("{json:#}\n")) } else { print(text) }
    }

    /// Prints a document unless the form is text.
    pub(crate) fn show_json(self, json: &Value) -> Result<(), Failure> {
        self.show(json, "")
    }

    /// Prints a text unless the form is JSON.
    pub(crate) fn show_text(self, text: &str) -> Result<(), Failure> {
        if self.json { Ok(()) } else { print(text) }
    }

    /// Prints an explanation, and an empty line. With JSON, to the standard error.
    pub(crate) fn explain(self, text: &str) -> Result<(), Failure> {
        if self.json {
            say(text);
        }
        self.show_text(&format!("{text}\n\n"))
    }
}

/// Returns the text of the error for a field of JSON.
pub(crate) fn error_text<T, E: Display>(result: &Result<T, E>) -> Option<String> {
    result.as_ref().err().map(ToString::to_string)
}

/// Prints the text at once, without colours if the output or the environment does not allow them.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    write(anstream::stdout().lock(), text)
}

/// Writes the text to the standard output.
pub(super) fn write(mut out: impl Write, text: &str) -> Result<(), Failure> {
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| Failure::output(&error))
}

/// Prints a document on one line.
pub(crate) fn print_json_line(value: &Value) -> Result<(), Failure> {
    print(&format!("{value}\n"))
}
