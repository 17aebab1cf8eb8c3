//! A line of text with a caret under the place that is meant.
//!
//! The text is somebody's input: tabs would move the caret, escapes would reach the terminal, and a line may be as
//! long as the file.

use std::fmt;

use super::Position;

/// The most cells of a line that are shown.
const CELLS_MAX: usize = 100;
/// What stays visible before the place when the line's beginning is cut.
const CELLS_BEFORE: usize = 30;
const TAB_CELLS: usize = 4;
const CUT: &str = "...";
/// The most cells that a person's text takes where it is repeated in a message.
const QUOTE_CELLS_MAX: usize = 60;
/// The most cells of a message by somebody who does not know what may be shown.
const MESSAGE_CELLS_MAX: usize = 200;

/// The line and the carets, each on a line of its own, after a gutter of so many cells.
pub(super) fn write(f: &mut fmt::Formatter<'_>, position: &Position, gutter: usize) -> fmt::Result {
    let Some(excerpt) = &position.excerpt else { return Ok(()) };
    let is_line_start = excerpt.skipped == 0;
    let cells: Vec<String> =
        excerpt.text.chars().enumerate().map(|(i, c)| cell(c, is_line_start && i == 0)).collect();
    let first = (position.column as usize).saturating_sub(1 + excerpt.skipped);
    let width_before: usize = cells.iter().take(first).map(|cell| cell.chars().count()).sum();
    // A line is cut at the left only where its place would not be seen otherwise.
    let skipped =
        if width_before + CELLS_BEFORE > CELLS_MAX { first.saturating_sub(CELLS_BEFORE) } else { 0 };

    let mut shown = String::from(if skipped > 0 || !is_line_start { CUT } else { "" });
    let mut cells_used = shown.len();
    let mut caret_start = cells_used;
    let mut caret_width = 0;
    for (i, cell) in cells.iter().enumerate().skip(skipped) {
        let width = cell.chars().count();
        if cells_used + width > CELLS_MAX {
            shown.push_str(CUT);
            break;
        }
        if i < first {
            caret_start += width;
        } else if i < first + position.width as usize {
            caret_width += width;
        }
        cells_used += width;
        shown.push_str(cell);
    }

    let shown = shown.trim_end();
    let carets = "^".repeat(caret_width.max(1));
    write!(f, "\n{:gutter$} |", "")?;
    write!(f, "\n{:>gutter$} | {shown}", position.line)?;
    write!(f, "\n{:gutter$} | {:caret_start$}{carets}", "", "")
}

/// A person's text as it may stand in a message: in backticks, and short.
pub(crate) fn quote(text: &str) -> String {
    format!("`{}`", one_line(text, QUOTE_CELLS_MAX))
}

/// A message that may repeat a person's text.
pub(crate) fn message(text: &str) -> String {
    one_line(text, MESSAGE_CELLS_MAX)
}

/// A text on one line, without control characters, and cut where it is longer than so many cells.
fn one_line(text: &str, cells_max: usize) -> String {
    let mut line = String::new();
    let mut cells_left = cells_max;
    for c in text.chars() {
        let cell = if c == '\t' { "\\t".to_owned() } else { cell(c, false) };
        let width = cell.chars().count();
        if width > cells_left {
            line.push_str(CUT);
            break;
        }
        cells_left -= width;
        line.push_str(&cell);
    }
    line
}

fn cell(c: char, first: bool) -> String {
    match c {
        '\t' => " ".repeat(TAB_CELLS),
        '\n' => "\\n".to_owned(),
        '\r' => "\\r".to_owned(),
        '\u{feff}' if first => String::new(),
        c if c.is_control() || is_invisible(c) => c.escape_unicode().to_string(),
        c => c.to_string(),
    }
}

/// Marks that turn the direction of text, join or separate without being seen: a message must not be bent by them.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}
