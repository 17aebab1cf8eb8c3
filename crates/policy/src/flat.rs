//! Files of settings: a mapping of names to plain values. What they mean is for whoever asks; where they stand is kept, so that
//! it can be said.

use crate::keys::nearest;
use crate::problem::{Page, Position, Problem, Problems, message};
use crate::source::{Source, too_large};
use crate::yaml::{self, Content};

/// A name and its value as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlatEntry {
    /// The name.
    pub key: String,
    /// The value.
    pub text: String,
    position: Position,
}

impl FlatEntry {
    /// Says what is wrong with the value, and what to do about it. What is wrong may repeat the value, whatever is in it.
    pub fn problem(&self, what: impl AsRef<str>, hint: impl Into<String>) -> Problem {
        Problem::new(self.position.clone(), message(what.as_ref())).hint(hint)
    }

    /// The same of a value that nobody may see.
    pub fn secret_problem(&self, what: impl AsRef<str>, hint: impl Into<String>) -> Problem {
        Problem::new(self.position.without_excerpt(), message(what.as_ref())).hint(hint)
    }
}

/// Reads a file of settings, which may be empty. Names that are not `known` are problems.
pub fn read_flat(source: &Source, known: &[&str]) -> Result<Vec<FlatEntry>, Problems> {
    let mut problems = Problems::new();
    if source.text.len() > Source::TEXT_BYTES_MAX {
        problems.push(too_large(&source.name));
        return Err(problems);
    }
    let text = source.text.strip_prefix('\u{feff}').unwrap_or(&source.text);
    let page = Page::new(&source.name, text);
    let Some(root) = yaml::parse(text, &page, &mut problems) else { return problems.or(Vec::new()) };
    let Content::Map(entries) = &root.content else {
        let what = format!("settings are a mapping of names to values, not {}", root.kind());
        problems.push(
            Problem::new(page.position(root.mark), what).hint("write lines such as `http: 127.0.0.1:8080`"),
        );
        return Err(problems);
    };
    let mut found = Vec::new();
    for entry in entries.iter() {
        if !known.contains(&&*entry.key) {
            if problems.only_counts(page.file(), entry.key_mark.line, entry.key_mark.column) {
                continue;
            }
            let hint = match nearest(&entry.key, known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("the settings are {}", known.join(", ")),
            };
            let what = format!("unknown setting {}", crate::problem::quote(&entry.key));
            problems.push(Problem::new(page.position(entry.key_mark), what).hint(hint));
        } else if let Content::Scalar(scalar) = &entry.value.content {
            let position = page.position(entry.value.mark);
            found.push(FlatEntry { key: entry.key.to_string(), text: scalar.text.to_string(), position });
        } else {
            let what = format!("`{}` takes one value, not {}", entry.key, entry.value.kind());
            problems.push(
                Problem::new(page.position(entry.value.mark), what).hint("write the value behind the colon"),
            );
        }
    }
    problems.or(found)
}
