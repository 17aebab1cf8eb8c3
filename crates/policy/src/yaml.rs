//! YAML as a tree that remembers where everything stands, so that whoever reads it can say where it is wrong.
//!
//! The text is not trusted: its size, its depth, the number of its nodes and their text are bounded, the last two after
//! aliases are expanded, so that a few lines of aliases to aliases do not become a billion nodes, nor a few thousand
//! aliases of a long text gigabytes. Aliases share what they name; whoever reads them copies it.
//! A merge key (`<<`) adds what is not given beside it, whichever comes first.

mod build;
mod complaint;
mod scalar;

#[cfg(test)]
mod tests;

use std::rc::Rc;

pub(crate) use scalar::{Plain, plain};

use crate::problem::{Mark, Page, Problems};
use crate::source::Source;

/// The deepest nesting of lists and mappings. Descriptors of the greatest depth fit twice.
pub(crate) const DEPTH_MAX: usize = 100;
/// The most nodes of a text, counted after aliases are expanded.
pub(crate) const NODES_MAX: usize = 1_000_000;
/// The most bytes of all keys and scalars of a text, counted after aliases are expanded.
pub(crate) const BYTES_MAX: usize = 4 * Source::TEXT_BYTES_MAX;

/// A value, and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) mark: Mark,
    pub(crate) content: Content,
    size: Size,
    /// How many levels it has: a scalar one.
    height: usize,
}

/// How much a node is, with all that its aliases stand for.
#[derive(Clone, Copy, Debug)]
struct Size {
    /// Itself included.
    nodes: usize,
    /// The length of its scalars and keys.
    bytes: usize,
}

/// What a node is.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    Scalar(Scalar),
    List(Rc<[Node]>),
    Map(Rc<[Entry]>),
}

/// A piece of text.
#[derive(Clone, Debug)]
pub(crate) struct Scalar {
    pub(crate) text: Rc<str>,
    /// Whether it stands there without quotes, so that it may mean a number, a boolean or nothing.
    pub(crate) plain: bool,
}

/// A key of a mapping and its value.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: Rc<str>,
    pub(crate) key_mark: Mark,
    pub(crate) value: Node,
}

impl Node {
    /// Whether it says nothing: `null`, `~`, or no text at all.
    pub(crate) fn is_null(&self) -> bool {
        matches!(&self.content, Content::Scalar(scalar) if scalar.plain && plain(&scalar.text) == Plain::Null)
    }

    /// What it is, in words.
    pub(crate) fn kind(&self) -> &'static str {
        match &self.content {
            Content::List(_) => "a list",
            Content::Map(_) => "a mapping",
            Content::Scalar(scalar) if !scalar.plain => "text",
            Content::Scalar(scalar) => match plain(&scalar.text) {
                Plain::Null => "nothing",
                Plain::Boolean(_) => "a boolean",
                Plain::Whole(_) | Plain::Float(_) => "a number",
                Plain::Text => "text",
            },
        }
    }
}

/// The tree of a text, which is one document. What is wrong goes to `problems`; nothing is returned where the text cannot
/// be understood as a whole, or holds no document.
pub(crate) fn parse(text: &str, page: &Page<'_>, problems: &mut Problems) -> Option<Node> {
    build::build(text, page, problems)
}
