//! Tables of rows that arrive one by one, in bounded memory.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Number of rows that determine the widths of the columns.
const SAMPLE: usize = 50;
/// Maximum width to which a column is padded. Longer cells are printed whole.
const WIDEST: usize = 40;
const GAP: &str = "  ";

/// A column of a [`Table`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) title: &'static str,
    /// Whether the cells end, rather than begin, at the same place.
    pub(crate) right: bool,
}

impl Column {
    pub(crate) const fn left(title: &'static str) -> Self {
        Self { title, right: false }
    }

    pub(crate) const fn right(title: &'static str) -> Self {
        Self { title, right: true }
    }
}

/// A table whose first rows determine its widths.
#[derive(Debug)]
pub(crate) struct Table<const N: usize> {
    columns: [Column; N],
    /// Set after the first rows.
    widths: Option<[usize; N]>,
    first: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    pub(crate) fn new(columns: [Column; N]) -> Self {
        Self { columns, widths: None, first: Vec::new() }
    }

    /// Adds a row. Returns the lines that can be printed now.
    pub(crate) fn row(&mut self, cells: [String; N]) -> String {
        if let Some(widths) = &self.widths {
            return self.line(widths, &cells.each_ref().map(String::as_str));
        }
        self.first.push(cells);
        if self.first.len() < SAMPLE { String::new() } else { self.end() }
    }

    /// Returns the lines that were not printed. Without a row there is no heading either.
    pub(crate) fn end(&mut self) -> String {
        let first = std::mem::take(&mut self.first);
        if first.is_empty() {
            return String::new();
        }
        let titles = self.columns.map(|column| column.title);
        let mut widths = titles.map(width);
        for row in &first {
            for (widest, cell) in widths.iter_mut().zip(row) {
                *widest = (*widest).max(width(cell).min(WIDEST));
            }
        }
        let mut text = self.line(&widths, &titles);
        for row in &first {
            text.push_str(&self.line(&widths, &row.each_ref().map(String::as_str)));
        }
        self.widths = Some(widths);
        text
    }

    fn line(&self, widths: &[usize; N], cells: &[&str; N]) -> String {
        let mut line = String::new();
        for (i, cell) in cells.iter().enumerate() {
            let padding = " ".repeat(widths[i].saturating_sub(width(cell)));
            let gap = if i == 0 { "" } else { GAP };
            line.push_str(gap);
            if self.columns[i].right {
                line.push_str(&padding);
                line.push_str(cell);
            } else {
                line.push_str(cell);
                line.push_str(&padding);
            }
        }
        line.truncate(line.trim_end().len());
        line.push('\n');
        line
    }
}

/// Returns the number of columns of a terminal that the text takes.
pub(crate) fn width(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// Cuts a line that is wider than so many columns; its end is then `…`.
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
        Table::new([Column::left("NAME"), Column::right("TOKEN"), Column::left("NODES")])
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
        for i in 1..SAMPLE {
            assert_eq!(table.row(cells("a", &i.to_string(), "3/3")), "");
        }
        assert_eq!(table.row(cells("a", "1", "3/3")).lines().count(), SAMPLE + 1);
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
        assert_eq!(lines[2], format!("y{}  {:>5}  3/3", " ".repeat(WIDEST - 1), 1));
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
