//! A table of the report.

use std::fmt;

use super::format;
use crate::{
    contestants::Kind,
    samples::{Key, Samples, key},
    spread::Spread,
};

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

    /// Makes a table with a row for each case, of this crate's values.
    pub(crate) fn of_cases(
        samples: &Samples,
        cases: impl IntoIterator<Item = String>,
        columns: &[Column],
    ) -> Self {
        let mut table = Self::with_columns(columns);
        for case in cases {
            let row = Row { samples, case: &case, who: Kind::Ours.name() };
            table.add_row(case.clone(), &row, columns);
        }
        table
    }

    /// Makes a table with a row for each contestant in each case.
    pub(crate) fn of_contestants(
        samples: &Samples,
        cases: impl IntoIterator<Item = String>,
        contestants: &[&str],
        columns: &[Column],
    ) -> Self {
        let mut table = Self::with_columns(columns);
        for case in cases {
            for who in contestants {
                table.add_row(
                    format!("{case}: {who}"),
                    &Row { samples, case: &case, who },
                    columns,
                );
            }
        }
        table
    }

    fn with_columns(columns: &[Column]) -> Self {
        Self::new(std::iter::once("").chain(columns.iter().map(|(head, _)| *head)))
    }

    fn add_row(&mut self, label: String, row: &Row<'_>, columns: &[Column]) {
        self.add(std::iter::once(label).chain(columns.iter().map(|(_, cell)| cell(row))));
    }

    /// Names the first column.
    pub(crate) fn titled(mut self, title: &str) -> Self {
        self.head[0] = title.into();
        self
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

/// A column: its heading, and the text of a row's cell.
pub(crate) type Column = (&'static str, fn(&Row<'_>) -> String);

/// The samples of a row: those of one contestant in one case.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<'a> {
    pub(crate) samples: &'a Samples,
    pub(crate) case: &'a str,
    pub(crate) who: &'a str,
}

impl Row<'_> {
    fn value(&self, what: &str) -> Option<Spread> {
        self.samples.spread(&key(self.case, self.who, what))
    }

    /// Formats the median with the minimum and maximum.
    pub(crate) fn spread(&self, what: &str, format: fn(f64) -> String) -> String {
        format::with_spread(self.value(what), format)
    }

    pub(crate) fn median(&self, what: &str, format: fn(f64) -> String) -> String {
        format::median(self.value(what), format)
    }

    /// Formats the ratio to another quantity of the same contestant.
    pub(crate) fn ratio(&self, what: &str, other: &str, format: fn(f64) -> String) -> String {
        self.ratio_to(what, &key(self.case, self.who, other), format)
    }

    /// Formats the ratio to the same quantity of another contestant.
    pub(crate) fn ratio_to_who(&self, what: &str, who: &str, format: fn(f64) -> String) -> String {
        self.ratio_to(what, &key(self.case, who, what), format)
    }

    fn ratio_to(&self, what: &str, lower: &Key, format: fn(f64) -> String) -> String {
        let upper = key(self.case, self.who, what);
        format::with_spread(self.samples.ratio(&upper, lower), format)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| {} |", self.head.join(" | "))?;
        writeln!(f, "|---|{}", "--:|".repeat(self.head.len() - 1))?;
        self.rows.iter().try_for_each(|row| writeln!(f, "| {} |", row.join(" | ")))
    }
}
