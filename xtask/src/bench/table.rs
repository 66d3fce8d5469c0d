//! Columns of text, as wide as their widest cell; and how numbers stand in them.

use std::fmt;

/// What stands in a cell that has no value.
pub(super) const NOTHING: &str = "-";

/// A table with a line of headings.
#[derive(Debug)]
pub(super) struct Table {
    columns: Vec<Column>,
    /// A row without cells is an empty line.
    rows: Vec<Vec<String>>,
}

/// A heading and the side to which its cells are pushed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Column {
    /// For words.
    Left(&'static str),
    /// For numbers.
    Right(&'static str),
}

impl Table {
    pub(super) fn new(columns: &[Column]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row; cells that are missing at its end stay empty.
    pub(super) fn row(&mut self, cells: Vec<String>) {
        assert!(cells.len() <= self.columns.len(), "every cell must have a column: {cells:?}");
        self.rows.push(cells);
    }

    /// Adds an empty line, unless the table is empty or has one there.
    pub(super) fn gap(&mut self) {
        if self.rows.last().is_some_and(|row| !row.is_empty()) {
            self.rows.push(Vec::new());
        }
    }

    fn widths(&self) -> Vec<usize> {
        let width = |text: &str| text.chars().count();
        let widest = |(index, column): (usize, &Column)| {
            let cells = self.rows.iter().filter_map(|row| row.get(index));
            cells.map(|cell| width(cell)).fold(width(column.heading()), usize::max)
        };
        self.columns.iter().enumerate().map(widest).collect()
    }

    fn write<'a>(
        &self,
        f: &mut fmt::Formatter<'_>,
        widths: &[usize],
        cells: impl Iterator<Item = &'a str>,
    ) -> fmt::Result {
        let padded =
            cells.zip(&self.columns).zip(widths).map(|((cell, column), &width)| match column {
                Column::Left(_) => format!("{cell:<width$}"),
                Column::Right(_) => format!("{cell:>width$}"),
            });
        let line = padded.collect::<Vec<_>>().join("  ");
        writeln!(f, "{}", line.trim_end())
    }
}

impl Column {
    fn heading(&self) -> &'static str {
        match self {
            Self::Left(heading) | Self::Right(heading) => heading,
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.widths();
        self.write(f, &widths, self.columns.iter().map(Column::heading))?;
        self.rows.iter().try_for_each(|row| self.write(f, &widths, row.iter().map(String::as_str)))
    }
}

/// A number with its decimals, or a sign that there is none.
pub(super) fn number(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| NOTHING.to_owned(), |value| format!("{value:.decimals$}"))
}

/// A count with a comma after every thousand: `1,000,000`.
pub(super) fn grouped(count: u32) -> String {
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

/// The first line of a text that has all these words, with one blank between its words.
#[cfg(test)]
pub(super) fn line(text: &str, words: &[&str]) -> String {
    let has_all =
        |line: &&str| words.iter().all(|word| line.split_whitespace().any(|w| w == *word));
    let line = text.lines().find(has_all).expect("the line must be there");
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_left_and_numbers_right() {
        let mut table =
            Table::new(&[Column::Left("who"), Column::Right("×"), Column::Left("note")]);
        table.gap();
        table.row(vec!["client-go".to_owned(), "1.00".to_owned()]);
        table.gap();
        table.gap();
        table.row(vec!["us".to_owned(), "12.00".to_owned(), "fast".to_owned()]);
        let shown = table.to_string();
        assert_eq!(
            shown.lines().collect::<Vec<_>>(),
            ["who            ×  note", "client-go   1.00", "", "us         12.00  fast",]
        );
    }

    #[test]
    fn counts_are_grouped_by_thousands() {
        let shown = [7, 100, 1000, 123_456, 1_000_000].map(grouped);
        assert_eq!(shown, ["7", "100", "1,000", "123,456", "1,000,000"]);
    }
}
