//! The tree of a domain, and the way of a descriptor through it.
//!
//! Each entry of the descriptor takes one step down: to the child with exactly its key and value; else to the first, in
//! the order of the file, whose pattern matches the value; else to the child that takes any value of the key. A step is never
//! taken back: a listed value without a limit is let through even where the child for any value has one. What is asked
//! stands where the last entry leads.

use crate::map::Map;
use crate::pattern::Pattern;

/// One entry of a descriptor: key and value.
pub type Entry<'a> = (&'a str, &'a str);

/// One level of the tree.
#[derive(Clone, Debug, Default)]
pub struct Level {
    children: Vec<Child>,
    keys: Map<Box<str>, Candidates>,
}

/// A node of the tree, and what leads to it.
#[derive(Clone, Debug)]
pub struct Child {
    /// The key that an entry must have.
    pub key: Box<str>,
    /// The values that it may have.
    pub values: Values,
    /// The place of requests that end here, if anything is asked of them.
    pub place: Option<PlaceIndex>,
    /// The next level.
    pub below: Level,
}

/// The values that lead to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Values {
    /// This one.
    Exact(Box<str>),
    /// Those that match.
    Matching {
        /// What they match.
        pattern: Pattern,
        /// Whether they share one counter.
        shared: bool,
    },
    /// All.
    Any,
}

/// A step of the way to a place: what leads to the next node.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) key: Box<str>,
    pub(crate) values: Values,
}

/// Where a snapshot keeps a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlaceIndex(pub(crate) u32);

/// The children of one key, as indices, by how their values are looked for.
#[derive(Clone, Debug, Default)]
struct Candidates {
    exact: Map<Box<str>, usize>,
    patterns: Vec<usize>,
    any: Option<usize>,
}

impl Level {
    pub(crate) fn new(children: Vec<Child>) -> Level {
        let mut keys: Map<Box<str>, Candidates> = Map::default();
        for (index, child) in children.iter().enumerate() {
            let candidates = keys.entry(child.key.clone()).or_default();
            match &child.values {
                Values::Exact(value) => {
                    candidates.exact.insert(value.clone(), index);
                }
                Values::Matching { .. } => candidates.patterns.push(index),
                Values::Any => candidates.any = Some(index),
            }
        }
        Level { children, keys }
    }

    /// The children in the order of the file.
    pub fn children(&self) -> &[Child] {
        &self.children
    }

    /// The child that an entry leads to.
    pub fn step(&self, (key, value): Entry<'_>) -> Option<&Child> {
        let candidates = self.keys.get(key)?;
        let index = candidates.exact.get(value).copied();
        let index =
            index.or_else(|| candidates.patterns.iter().copied().find(|&at| self.children[at].takes(value)));
        index.or(candidates.any).map(|index| &self.children[index])
    }

    /// The place that a whole descriptor leads to.
    pub fn walk(&self, entries: &[Entry<'_>]) -> Option<PlaceIndex> {
        let (last, before) = entries.split_last()?;
        let mut level = self;
        for &entry in before {
            level = &level.step(entry)?.below;
        }
        level.step(*last)?.place
    }
}

impl Child {
    /// Whether an entry with this value may come here.
    pub fn takes(&self, value: &str) -> bool {
        match &self.values {
            Values::Exact(exact) => **exact == *value,
            Values::Matching { pattern, .. } => pattern.matches(value),
            Values::Any => true,
        }
    }
}
