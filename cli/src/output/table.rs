//! Tables of rows that arrive one by one, in bounded memory.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Number of rows that determine the widths of the columns.
const SAMPLE_ROWS: usize = 50;
/// Maximum width to which a column is padded. Longer cells are printed whole.
const MAX_SAMPLED_WIDTH: usize = 40;
const GAP: &str = "  ";

/// A table whose first rows determine its widths.
#[derive(Debug)]
pub(crate) struct Table<const N: usize> {
    columns: [&'static str; N],
    /// Set after the first rows.
    widths: Option<[usize; N]>,
    first: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    /// Begins a table with these titles. A `>` before a title aligns its column to the right.
    pub(crate) fn new(columns: [&'static str; N]) -> Self {
        Self { columns, widths: None, first: Vec::new() }
    }

    /// Returns a table of these rows.
    pub(crate) fn of(
        columns: [&'static str; N],
        rows: impl IntoIterator<Item = [String; N]>,
    ) -> String {
        let mut table = Self::new(columns);
        let text: String = rows.into_iter().map(|row| table.row(row)).collect();
        text + &table.end()
    }

    /// Adds a row. Returns the lines that can be printed now.
    pub(crate) fn row(&mut self, cells: [String; N]) -> String {
        if let Some(widths) = &self.widths {
            return self.line(widths, cells.each_ref().map(String::as_str));
        }
        self.first.push(cells);
        if self.first.len() < SAMPLE_ROWS { String::new() } else { self.end() }
    }

    /// Returns the lines that were not printed. Without a row there is no heading either.
    pub(crate) fn end(&mut self) -> String {
        let first = std::mem::take(&mut self.first);
        if first.is_empty() {
            return String::new();
        }
        assert!(self.widths.is_none(), "rows are kept until the widths are known");
        let titles = self.columns.map(|column| column.trim_start_matches('>'));
        let widths = std::array::from_fn(|i| {
            let cells = first.iter().map(|row| width(&row[i]).min(MAX_SAMPLED_WIDTH));
            cells.fold(width(titles[i]), usize::max)
        });
        let rows = first.iter().map(|row| row.each_ref().map(String::as_str));
        let text =
            std::iter::once(titles).chain(rows).map(|cells| self.line(&widths, cells)).collect();
        self.widths = Some(widths);
        text
    }

    fn line(&self, widths: &[usize; N], cells: [&str; N]) -> String {
        let mut line = String::new();
        for ((cell, column), widest) in cells.iter().zip(self.columns).zip(widths) {
            let padding = " ".repeat(widest.saturating_sub(width(cell)));
            let (before, after) =
                if column.starts_with('>') { (&*padding, "") } else { ("", &*padding) };
            line.extend([before, cell, after, GAP]);
        }
        line.truncate(line.trim_end().len());
        line + "\n"
    }
}

/// Returns the number of columns of a terminal that the text takes.
pub(crate) fn width(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// Cuts a line to this number of columns. The end of a line that was cut is `…`.
pub(crate) fn fit(line: &str, columns: usize) -> String {
    if width(line) <= columns {
        return line.to_owned();
    }
    let Some(room) = columns.checked_sub(1) else { return String::new() };
    let (mut text, mut used) = (String::new(), 0);
    for c in line.chars() {
        used += c.width().unwrap_or(0);
        if used > room {
            break;
        }
        text.push(c);
    }
    text.push('…');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table<3> {
        Table::new(["NAME", ">TOKEN", "NODES"])
    }

    fn cells(name: &str, token: &str, nodes: &str) -> [String; 3] {
        [name, token, nodes].map(str::to_owned)
    }

    #[test]
    fn columns_are_aligned() {
        let mut table = table();
        assert_eq!(table.row(cells("invoice:42", "7", "3/3")), "");
        assert_eq!(table.row(cells("東京", "1234567", "1/3 minority")), "");
        let text = "\
NAME          TOKEN  NODES
invoice:42        7  3/3
東京        1234567  1/3 minority
";
        assert_eq!(table.end(), text);
        assert_eq!(table.end(), "");
    }

    #[test]
    fn rows_after_sample_are_printed() {
        let mut table = table();
        for i in 1..SAMPLE_ROWS {
            assert_eq!(table.row(cells("a", &i.to_string(), "3/3")), "");
        }
        assert_eq!(table.row(cells("a", "1", "3/3")).lines().count(), SAMPLE_ROWS + 1);
        assert_eq!(table.row(cells("a", "1", "3/3")), "a         1  3/3\n");
        // Wider than all before: whole.
        assert_eq!(table.row(cells("a longer name", "1", "")), "a longer name      1\n");
        assert_eq!(table.end(), "");
    }

    #[test]
    fn empty_table_has_no_heading() {
        assert_eq!(table().end(), "");
    }

    #[test]
    fn one_long_cell_pads_no_others() {
        let mut table = table();
        table.row(cells(&"x".repeat(300), "1", "3/3"));
        table.row(cells("y", "1", "3/3"));
        let text = table.end();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[2], format!("y{}  {:>5}  3/3", " ".repeat(MAX_SAMPLED_WIDTH - 1), 1));
        assert!(lines[1].starts_with(&"x".repeat(300)));
    }

    #[test]
    fn lines_are_cut_by_width() {
        assert_eq!(fit("abcdef", 6), "abcdef");
        assert_eq!(fit("abcdef", 4), "abc…");
        assert_eq!(fit("東京都", 5), "東京…");
        assert_eq!(fit("東京都", 4), "東…");
        assert_eq!(fit("a", 0), "");
    }
}
