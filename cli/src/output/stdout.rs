//! The standard output. A command ends where nobody reads it.

use std::io::{Write, stdout};

use serde_json::Value;

use crate::exit::Failure;

/// Prints the text at once.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| Failure::output(&error))
}

/// Prints a document over several lines.
pub(crate) fn print_json(value: &Value) -> Result<(), Failure> {
    print(&format!("{value:#}\n"))
}

/// Prints a document on one line.
pub(crate) fn print_json_line(value: &Value) -> Result<(), Failure> {
    print(&format!("{value}\n"))
}
