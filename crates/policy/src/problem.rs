//! What is wrong with a text, told so that a person can put it right: the place, the line itself, what is wrong, and
//! what to write instead.
//!
//! Problems are collected rather than thrown: who made three mistakes wants to hear of three.

mod excerpt;
mod page;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

pub(crate) use excerpt::{message, quote};
pub(crate) use page::{Mark, Page};

/// A place in a text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The name of the file.
    pub file: Arc<str>,
    /// The line, counted from 1; 0 means the file as a whole.
    pub line: u32,
    /// The column in characters, counted from 1; 0 means the file as a whole.
    pub column: u32,
    /// How many characters from there on are meant: at least 1, within the line.
    pub width: u32,
    /// The line's text around it.
    excerpt: Option<page::Excerpt>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Where.
    pub position: Position,
    /// What is wrong.
    pub what: String,
    /// Another place that has to do with it, and what it is.
    pub also: Option<(Position, String)>,
    /// What to do about it.
    pub hint: Option<String>,
}

/// All that is wrong, by file and position. Of very many, the first are kept and the others counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems {
    kept: Vec<Problem>,
    not_kept: usize,
}

impl Position {
    /// A file as a whole.
    pub(crate) fn file(name: &str) -> Position {
        Position { file: Arc::from(name), line: 0, column: 0, width: 0, excerpt: None }
    }

    /// The same place, of which nothing is shown.
    pub(crate) fn without_excerpt(&self) -> Position {
        Position { excerpt: None, ..self.clone() }
    }
}

impl Problem {
    /// Something wrong at a place.
    pub(crate) fn new(position: Position, what: impl Into<String>) -> Problem {
        Problem { position, what: what.into(), also: None, hint: None }
    }

    /// What to do about it.
    #[must_use]
    pub(crate) fn hint(self, hint: impl Into<String>) -> Problem {
        Problem { hint: Some(hint.into()), ..self }
    }

    /// Another place that has to do with it.
    #[must_use]
    pub(crate) fn also(self, position: Position, text: impl Into<String>) -> Problem {
        Problem { also: Some((position, text.into())), ..self }
    }
}

impl Problems {
    /// The most problems that are kept. The others are counted.
    pub const KEPT_MAX: usize = 100;

    /// None so far.
    pub fn new() -> Problems {
        Problems::default()
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// How many there are, those included that were not kept.
    pub fn len(&self) -> usize {
        self.kept.len() + self.not_kept
    }

    /// Those that were kept, by file and position.
    pub fn iter(&self) -> std::slice::Iter<'_, Problem> {
        self.kept.iter()
    }

    /// `value` if nothing is wrong.
    pub fn or<T>(self, value: T) -> Result<T, Problems> {
        if self.is_empty() { Ok(value) } else { Err(self) }
    }

    /// Adds those of another collection.
    pub(crate) fn extend(&mut self, others: Problems) {
        self.not_kept += others.not_kept;
        others.kept.into_iter().for_each(|problem| self.push(problem));
    }

    /// Whether one at this place would only be counted; then it is. Saves the trouble of wording it where a file is
    /// nothing but mistakes.
    pub(crate) fn only_counts(&mut self, file: &str, line: u32, column: u32) -> bool {
        let is_full = self.kept.len() == Problems::KEPT_MAX;
        let is_beyond = self.kept.last().is_some_and(|last| {
            let last = &last.position;
            (file, line, column) > (&*last.file, last.line, last.column)
        });
        self.not_kept += usize::from(is_full && is_beyond);
        is_full && is_beyond
    }

    /// Adds one, unless it is there: an alias leads to the same mistake again and again.
    pub fn push(&mut self, problem: Problem) {
        let Err(at) = self.kept.binary_search(&problem) else { return };
        self.kept.insert(at, problem);
        if self.kept.len() > Problems::KEPT_MAX {
            self.kept.pop();
            self.not_kept += 1;
        }
    }
}

impl<'a> IntoIterator for &'a Problems {
    type Item = &'a Problem;
    type IntoIter = std::slice::Iter<'a, Problem>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Problems {
        Problems { kept: vec![problem], not_kept: 0 }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}", self.file),
            line => write!(f, "{}:{line}:{}", self.file, self.column),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line_max = self.also.as_ref().map_or(0, |(position, _)| position.line).max(self.position.line);
        let gutter = line_max.to_string().len() + 1;
        write!(f, "{}: {}", self.position, self.what)?;
        excerpt::write(f, &self.position, gutter)?;
        if let Some((position, text)) = &self.also {
            write!(f, "\n{:gutter$}::: {position}: {text}", "")?;
            excerpt::write(f, position, gutter)?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\n{:gutter$} = {hint}", "")?;
        }
        Ok(())
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.kept.iter().enumerate() {
            let separator = if i == 0 { "" } else { "\n\n" };
            write!(f, "{separator}{problem}")?;
        }
        match self.not_kept {
            0 => Ok(()),
            1 => write!(f, "\n\nand 1 more problem"),
            more => write!(f, "\n\nand {more} more problems"),
        }
    }
}

impl std::error::Error for Problem {}
impl std::error::Error for Problems {}
