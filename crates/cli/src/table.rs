//! Tables for people: columns that line up by what is seen, not by bytes.
//!
//! What stands in a cell was chosen by others, tenants for instance: what would move the cursor, colour the screen or turn the
//! direction of writing is shown as its code instead.

use std::fmt::Write;
use std::io::{self, IsTerminal};

/// Between two columns.
const GAP: &str = "  ";

/// A column's name, and to which side its cells go.
#[derive(Clone, Copy)]
pub(crate) enum Column {
    Left(&'static str),
    /// For numbers.
    Right(&'static str),
}

/// Rows of cells.
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

impl Column {
    fn name(self) -> &'static str {
        match self {
            Column::Left(name) | Column::Right(name) => name,
        }
    }
}

impl Table {
    /// One with these columns. If none has a name, there is no line of names.
    pub(crate) fn new(columns: &[Column]) -> Table {
        Table { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// One of names and what they stand for.
    pub(crate) fn of_fields() -> Table {
        Table::new(&[Column::Left(""), Column::Left("")])
    }

    /// Adds a row. Cells that are missing are empty.
    pub(crate) fn row<const N: usize>(&mut self, cells: [&str; N]) {
        self.rows.push(cells.iter().map(|cell| shown(cell)).collect());
    }

    /// The text, with bold names if standard output is a terminal that wants them.
    pub(crate) fn text(&self) -> String {
        self.render(io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none())
    }

    fn render(&self, is_bold: bool) -> String {
        let widths: Vec<usize> = (0..self.columns.len()).map(|i| self.width(i)).collect();
        let mut text = String::new();
        if self.columns.iter().any(|column| !column.name().is_empty()) {
            let names: Vec<String> = self.columns.iter().map(|column| column.name().to_owned()).collect();
            let line = self.line(&names, &widths);
            // Writing to a text cannot fail.
            let _ = if is_bold { writeln!(text, "\x1b[1m{line}\x1b[0m") } else { writeln!(text, "{line}") };
        }
        for row in &self.rows {
            let _ = writeln!(text, "{}", self.line(row, &widths));
        }
        text
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column)).map(|cell| width(cell));
        cells.chain(self.columns.get(column).map(|column| column.name().len())).max().unwrap_or(0)
    }

    fn line(&self, cells: &[String], widths: &[usize]) -> String {
        let mut line = String::new();
        for ((column, wide), i) in self.columns.iter().zip(widths).zip(0..) {
            let cell: &str = cells.get(i).map_or("", String::as_str);
            let pad = " ".repeat(wide.saturating_sub(width(cell)));
            let gap = if i == 0 { "" } else { GAP };
            let _ = match column {
                Column::Left(_) => write!(line, "{gap}{cell}{pad}"),
                Column::Right(_) => write!(line, "{gap}{pad}{cell}"),
            };
        }
        line.truncate(line.trim_end().len());
        line
    }
}

/// The text with nothing in it that a terminal obeys.
pub(crate) fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || is_format(c) {
            let _ = write!(shown, "{}", c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// The same for a text of several lines.
pub(crate) fn shown_lines(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(shown).collect();
    lines.join("\n")
}

/// Whether it is invisible and changes how others are shown.
fn is_format(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// How many columns of a terminal a text takes.
fn width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

/// By the ranges of Unicode's East Asian Width and of combining marks that people write in; good enough to line up.
fn char_width(c: char) -> usize {
    match u32::from(c) {
        0x300..=0x36f
        | 0x483..=0x489
        | 0x591..=0x5bd
        | 0x610..=0x61a
        | 0x64b..=0x65f
        | 0x93c
        | 0x941..=0x948
        | 0x94d
        | 0xe31
        | 0xe34..=0xe3a
        | 0xe47..=0xe4e
        | 0x1ab0..=0x1aff
        | 0x1dc0..=0x1dff
        | 0x20d0..=0x20ff
        | 0xfe00..=0xfe0f
        | 0xfe20..=0xfe2f
        | 0xe0100..=0xe01ef => 0,
        0x1100..=0x115f
        | 0x2e80..=0x303e
        | 0x3041..=0xa4cf
        | 0xa960..=0xa97f
        | 0xac00..=0xd7a3
        | 0xf900..=0xfaff
        | 0xfe30..=0xfe6f
        | 0xff00..=0xff60
        | 0xffe0..=0xffe6
        | 0x1f300..=0x1f64f
        | 0x1f680..=0x1f6ff
        | 0x1f900..=0x1f9ff
        | 0x1fa70..=0x1faff
        | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests;
