//! Tables for people: aligned in a terminal, and Markdown when pasted.

use std::fmt;

use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, ContentArrangement};

/// A table with a header; the first column is text, the others are figures.
pub(crate) struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these first columns.
    pub(crate) fn new<'a>(columns: impl IntoIterator<Item = &'a str>) -> Table {
        Table { header: columns.into_iter().map(str::to_owned).collect(), rows: Vec::new() }
    }

    /// One column more, at the right.
    pub(crate) fn add_column(&mut self, name: &str) {
        self.header.push(name.to_owned());
    }

    /// One row more, at the bottom.
    pub(crate) fn add_row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = comfy_table::Table::new();
        table.load_preset(ASCII_MARKDOWN).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(&self.header);
        table.add_rows(&self.rows);
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        write!(f, "{table}")
    }
}
