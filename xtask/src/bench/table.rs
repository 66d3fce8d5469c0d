//! Columns of text, as wide as their widest cell, and the formatting of numbers.

use std::fmt;

/// A table with a line of headings.
#[derive(Debug)]
pub(super) struct Table {
    aligns: Vec<Align>,
    /// The headings come first. A row without cells is an empty line.
    rows: Vec<Vec<String>>,
}

/// How the cells of a column are aligned: words left, numbers right.
#[derive(Clone, Copy, Debug)]
pub(super) enum Align {
    Left,
    Right,
}

impl Table {
    pub(super) fn new(headings: &[(Align, &str)]) -> Self {
        let aligns = headings.iter().map(|(align, _)| *align).collect();
        Self { aligns, rows: vec![headings.iter().map(|(_, text)| (*text).to_owned()).collect()] }
    }

    /// Adds a row, which has a cell for every heading.
    pub(super) fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.aligns.len(), "every column must have a cell: {cells:?}");
        self.rows.push(cells);
    }

    /// Adds an empty line, except directly below the headings.
    pub(super) fn gap(&mut self) {
        if self.rows.len() > 1 {
            self.rows.push(Vec::new());
        }
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths: Vec<usize> = (0..self.aligns.len()).map(|column| self.width(column)).collect();
        for row in &self.rows {
            let columns = row.iter().zip(&widths).zip(&self.aligns);
            let padded = columns.map(|((cell, width), align)| match align {
                Align::Left => format!("{cell:<width$}"),
                Align::Right => format!("{cell:>width$}"),
            });
            writeln!(f, "{}", padded.collect::<Vec<_>>().join("  ").trim_end())?;
        }
        Ok(())
    }
}

/// Formats a number with decimals, or a dash if there is none. Whole numbers are [`grouped`].
pub(super) fn number(value: Option<f64>, decimals: usize) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if decimals == 0 => grouped(value.round()),
        Some(value) => format!("{value:.decimals$}"),
    }
}

/// Formats a whole number with a comma after every thousand: `1,000,000`.
pub(super) fn grouped(count: impl fmt::Display) -> String {
    let digits = count.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_left_and_numbers_right() {
        let mut table = Table::new(&[(Align::Left, "who"), (Align::Right, "×")]);
        table.gap();
        table.row(vec!["client-go".to_owned(), "1.00".to_owned()]);
        table.gap();
        table.row(vec!["us".to_owned(), "12.00".to_owned()]);
        let shown = table.to_string();
        let expected = ["who            ×", "client-go   1.00", "", "us         12.00"];
        assert_eq!(shown.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn whole_numbers_are_grouped_by_thousands() {
        let shown = [7, 100, 1000, 123_456, 1_000_000].map(grouped);
        assert_eq!(shown, ["7", "100", "1,000", "123,456", "1,000,000"]);
        assert_eq!(number(Some(1234.4), 0), "1,234");
        assert_eq!(number(Some(1234.4), 2), "1234.40");
        assert_eq!(number(None, 2), "-");
    }
}
