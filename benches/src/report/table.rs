//! A table of the report.

use std::fmt;

/// A Markdown table; the first column is left-aligned, the others right-aligned.
#[derive(Debug)]
pub(crate) struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new<T: Into<String>>(head: impl IntoIterator<Item = T>) -> Self {
        Self { head: head.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// Adds a row, unless it has no values.
    pub(crate) fn add(&mut self, row: impl IntoIterator<Item = String>) {
        let row: Vec<_> = row.into_iter().collect();
        if row.iter().skip(1).any(|cell| !cell.is_empty() && cell != "–") {
            self.rows.push(row);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| {} |", self.head.join(" | "))?;
        writeln!(f, "|---|{}", "--:|".repeat(self.head.len() - 1))?;
        self.rows.iter().try_for_each(|row| writeln!(f, "| {} |", row.join(" | ")))
    }
}
