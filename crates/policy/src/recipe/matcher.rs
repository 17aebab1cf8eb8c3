//! Whether a request's header or query is as an action wants it.

use std::borrow::Cow;

/// What the values of one name must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matcher {
    /// The name of the header, in lower case, or of the parameter.
    pub name: String,
    /// What one of its values must be.
    pub test: Test,
    /// Whether letters of ASCII mean the same in either case.
    pub ignore_case: bool,
    /// Whether none of the values may be so.
    pub invert_match: bool,
    /// Whether a name that is not there counts as an empty value.
    pub treat_missing_header_as_empty: bool,
}

/// What a value must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    /// There, or not there.
    Present(bool),
    /// This text.
    Exact(String),
    /// Some text that begins so.
    Prefix(String),
    /// Some text that ends so.
    Suffix(String),
    /// Some text in which this one stands.
    Contains(String),
    /// A whole number from one to before another.
    Range {
        /// The first that is meant.
        start: i64,
        /// The first that is not meant any more.
        end: i64,
    },
}

impl Matcher {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whether values of that name are as they should be. As in Envoy, one that fits is enough where there are several; and where there is
    /// none, only a test for that can hold, inverted or not.
    pub(super) fn holds<'v>(&self, mut values: impl Iterator<Item = Cow<'v, str>>) -> bool {
        let Some(first) = values.next().or(self.treat_missing_header_as_empty.then_some(Cow::Borrowed("")))
        else {
            return matches!(self.test, Test::Present(present) if present == self.invert_match);
        };
        let fits = std::iter::once(first).chain(values).any(|value| self.fits(&value));
        fits != self.invert_match
    }

    /// Whether a value that is there fits.
    fn fits(&self, value: &str) -> bool {
        let alike = |part: &[u8], wanted: &str| {
            part == wanted.as_bytes() || self.ignore_case && part.eq_ignore_ascii_case(wanted.as_bytes())
        };
        let bytes = value.as_bytes();
        match &self.test {
            Test::Present(present) => *present,
            Test::Exact(wanted) => alike(bytes, wanted),
            Test::Prefix(wanted) => bytes.get(..wanted.len()).is_some_and(|part| alike(part, wanted)),
            Test::Suffix(wanted) => {
                let start = bytes.len().checked_sub(wanted.len());
                start.is_some_and(|start| alike(&bytes[start..], wanted))
            }
            Test::Contains(wanted) if self.ignore_case => {
                wanted.is_empty() || bytes.windows(wanted.len()).any(|part| alike(part, wanted))
            }
            Test::Contains(wanted) => value.contains(wanted.as_str()),
            Test::Range { start, end } => {
                value.parse::<i64>().is_ok_and(|number| (*start..*end).contains(&number))
            }
        }
    }
}
