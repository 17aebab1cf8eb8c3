//! What a YAML parser complains of, in the words of who wrote the text.

use saphyr_parser::ScanError;

use super::DEPTH_MAX;
use super::build::mark_at;
use crate::problem::{Mark, Page, Problem, quote};

/// What the parser says (a part of it), what that means, and what to do.
const MEANINGS: &[(&str, &str, &str)] = &[
    (
        "mapping values are not allowed",
        "a `:` stands where no key can",
        "indent the line like its neighbours, see whether the line above lacks its `:`, or put a value that has `: ` in \
         it in quotes",
    ),
    (
        "did not find expected '-' indicator",
        "this line is indented unlike those above it",
        "give all keys of a mapping the same indentation, and all `-` of a list",
    ),
    (
        "did not find expected key",
        "this line is indented unlike those above it",
        "give all keys of a mapping the same indentation, and all `-` of a list",
    ),
    ("simple key", "a key lacks its `:`", "write `key: value`; look at this line and the one above"),
    (
        "found unexpected end of stream",
        "the quotation that begins here has no end",
        "close it with the same quote; inside single quotes, write `''` for a quote",
    ),
    (
        "invalid indentation in quoted scalar",
        "the quotation that begins here is not closed on its line",
        "close it with the same quote",
    ),
    (
        "invalid trailing content",
        "text stands behind a quotation that has ended",
        "put all of the value in quotes; inside single quotes, write `''` for a quote",
    ),
    (
        "escape",
        "a backslash in double quotes begins an escape, and this one is unknown",
        "write `\\\\` for a backslash, or use single quotes",
    ),
    ("',' or '}'", "a `,` or `}` is missing", "put a `,` between entries, and close every `{` with a `}`"),
    ("',' or ']'", "a `,` or `]` is missing", "put a `,` between entries, and close every `[` with a `]`"),
    (
        "block scalar",
        "`|` and `>` begin text of several lines",
        "put a value that begins with one of them in quotes",
    ),
];

/// The problem that a parser's error is.
pub(super) fn complaint(error: &ScanError, page: &Page<'_>) -> Problem {
    let mark = mark_at(error.marker());
    let position = page.position(mark);
    let said = error.info();
    if let Some(mark) = tab_near(page, mark.line) {
        return Problem::new(page.position(mark), "a tab is used for indentation")
            .hint("YAML is indented by spaces only: replace every tab by spaces");
    }
    if page.line(mark.line).contains("{{") {
        return Problem::new(position, "this is not YAML but a template")
            .hint("render it first, by `helm template` say");
    }
    if said.contains("recursion limit") {
        return Problem::new(position, too_deep_what()).hint(TOO_DEEP_HINT);
    }
    if said.contains("anchor") {
        return sigil(page, mark);
    }
    if said.starts_with("unexpected character") {
        let c: String = page.line(mark.line).chars().skip(mark.column as usize - 1).take(1).collect();
        return Problem::new(position, format!("a value cannot begin with {}", quote(&c)))
            .hint("put it in quotes");
    }
    match MEANINGS.iter().find(|(part, _, _)| said.contains(part)) {
        Some((_, what, hint)) => Problem::new(position, *what).hint(*hint),
        None => Problem::new(position, format!("this is not YAML: {said}"))
            .hint("look at the indentation, quotes and brackets here and on the line above"),
    }
}

/// What is said of nesting beyond the bound.
pub(super) fn too_deep_what() -> String {
    format!("lists and mappings are nested more than {DEPTH_MAX} deep")
}

/// What to do about it.
pub(super) const TOO_DEEP_HINT: &str = "no rule needs that; look for a bracket that was not closed";

/// A value that begins with `*` or `&` and was meant as text: who writes patterns forgets that YAML knows these signs.
fn sigil(page: &Page<'_>, mark: Mark) -> Problem {
    let rest: String = page.line(mark.line).chars().skip(mark.column as usize - 1).collect();
    let word = rest.split_whitespace().next().unwrap_or_default();
    let problem = Problem::new(
        page.position(Mark { width: u32::try_from(word.len()).unwrap_or(1), ..mark }),
        match word {
            word if word.starts_with('*') => "to YAML, this is an alias, and nothing before has its name",
            _ => "to YAML, `&` begins the name of an anchor",
        },
    );
    problem.hint(format!("put a value that begins so in quotes: {}", quote(&format!("\"{word}\""))))
}

/// A tab in the indentation of the line that a parser complains of, or of the next: it tells some too early.
fn tab_near(page: &Page<'_>, line: u32) -> Option<Mark> {
    [line, line.saturating_add(1)].into_iter().find_map(|line| {
        let text = page.line(line);
        let indentation = text.chars().take_while(|c| c.is_whitespace());
        let column = indentation.enumerate().find(|(_, c)| *c == '\t')?.0 + 1;
        Some(Mark { line, column: u32::try_from(column).unwrap_or(1), width: 1 })
    })
}
