//! The lines of a text, so that a place in it can be shown. Whatever a parser says of places is clamped into the text.

use std::sync::Arc;

use super::Position;

/// Where something stands in a text: line and column from 1, and its width within the line, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) line: u32,
    pub(crate) column: u32,
    pub(crate) width: u32,
}

/// A text by its lines, which end as YAML's do: with a line feed, a carriage return, or both.
///
/// All of it may be one line of megabytes with a mistake at every step, so a column is found from a nearby milestone.
pub(crate) struct Page<'a> {
    file: Arc<str>,
    text: &'a str,
    lines: Vec<Line>,
    /// The byte at which every [`STRIDE`]th character begins.
    milestones: Vec<usize>,
}

/// Where a line stands in the text, in characters.
#[derive(Clone, Copy, Default)]
struct Line {
    start: usize,
    length: usize,
}

/// The part of a line that is kept with a place in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Excerpt {
    /// How many characters of the line were left out before it.
    pub(super) skipped: usize,
    pub(super) text: Arc<str>,
}

const STRIDE: usize = 256;
/// The most characters that are kept before a place, and after where it begins.
const KEPT_CHARS_MAX: usize = 200;

impl<'a> Page<'a> {
    pub(crate) fn new(file: &str, text: &'a str) -> Page<'a> {
        let mut page = Page { file: Arc::from(file), text, lines: Vec::new(), milestones: Vec::new() };
        let mut line = Line::default();
        let mut before = '\n';
        for (i, (byte, c)) in text.char_indices().enumerate() {
            if i % STRIDE == 0 {
                page.milestones.push(byte);
            }
            if c == '\n' && before == '\r' {
                line = Line { start: i + 1, length: 0 };
            } else if matches!(c, '\n' | '\r') {
                page.lines.push(line);
                line = Line { start: i + 1, length: 0 };
            } else {
                line.length += 1;
            }
            before = c;
        }
        if line.length > 0 || page.lines.is_empty() {
            page.lines.push(line);
        }
        page
    }

    /// The name of the file.
    pub(crate) fn file(&self) -> &str {
        &self.file
    }

    /// The file as a whole.
    pub(crate) fn whole(&self) -> Position {
        Position::file(&self.file)
    }

    /// The mark as a place that can be shown.
    pub(crate) fn position(&self, mark: Mark) -> Position {
        let line_index = (mark.line.max(1) as usize - 1).min(self.lines.len() - 1);
        let line = self.lines.get(line_index).copied().unwrap_or_default();
        let is_beyond = mark.line as usize > self.lines.len();
        // A place after the last line is shown at that line's end.
        let column =
            if is_beyond { line.length + 1 } else { (mark.column as usize).clamp(1, line.length + 1) };
        let width = (mark.width as usize).clamp(1, (line.length + 1 - column).max(1));
        let skipped = (column - 1).saturating_sub(KEPT_CHARS_MAX);
        let kept_end = line.length.min(column + KEPT_CHARS_MAX);
        let kept = &self.text[self.byte_of(line.start + skipped)..self.byte_of(line.start + kept_end)];
        Position {
            file: Arc::clone(&self.file),
            line: small(line_index + 1),
            column: small(column),
            width: small(width),
            excerpt: Some(Excerpt { skipped, text: Arc::from(kept) }),
        }
    }

    /// The text of a line, counted from 1; nothing beyond the last.
    pub(crate) fn line(&self, number: u32) -> &'a str {
        let line = (number as usize)
            .checked_sub(1)
            .and_then(|index| self.lines.get(index))
            .copied()
            .unwrap_or_default();
        &self.text[self.byte_of(line.start)..self.byte_of(line.start + line.length)]
    }

    /// The byte at which a character begins.
    fn byte_of(&self, index: usize) -> usize {
        let start = self.milestones.get(index / STRIDE).copied().unwrap_or(self.text.len());
        let rest = &self.text[start..];
        start + rest.char_indices().nth(index % STRIDE).map_or(rest.len(), |(byte, _)| byte)
    }
}

fn small(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
