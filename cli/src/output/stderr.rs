//! The standard error.

use std::io::{Write, stderr};

/// Prints a line that stays, to the standard error.
pub(crate) fn say(line: &str) {
    // A closed standard error cannot be reported anywhere.
    let _ = writeln!(stderr(), "{line}");
}
