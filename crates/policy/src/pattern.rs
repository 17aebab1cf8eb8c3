//! Values with wildcards: each `*` stands for any number of characters, none included.

/// A value with at least one `*`, cut at its stars once so that matching allocates nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    text: Box<str>,
    first: Box<str>,
    middle: Box<[Box<str>]>,
    last: Box<str>,
}

impl Pattern {
    /// The pattern that `text` is, if it has a star.
    pub fn new(text: &str) -> Option<Pattern> {
        let (first, rest) = text.split_once('*')?;
        let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
        Some(Pattern {
            text: text.into(),
            first: first.into(),
            middle: middle.split('*').filter(|part| !part.is_empty()).map(Into::into).collect(),
            last: last.into(),
        })
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether `value` is one of those it stands for. Takes the leftmost place for each part, which is enough: what
    /// lies between two stars may be anything.
    pub fn matches(&self, value: &str) -> bool {
        let Some(rest) = value.strip_prefix(&*self.first) else { return false };
        let Some(mut rest) = rest.strip_suffix(&*self.last) else { return false };
        for part in &self.middle {
            let Some(at) = rest.find(&**part) else { return false };
            rest = &rest[at + part.len()..];
        }
        true
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    fn check(pattern: &str, matching: &[&str], others: &[&str]) {
        let compiled = Pattern::new(pattern).unwrap();
        assert_eq!(compiled.as_str(), pattern);
        for value in matching {
            assert!(compiled.matches(value), "{pattern} should match {value:?}");
        }
        for value in others {
            assert!(!compiled.matches(value), "{pattern} should not match {value:?}");
        }
    }

    #[test]
    fn stars_stand_for_anything() {
        check("*", &["", "a", "a/b"], &[]);
        check("/api/*", &["/api/", "/api/x"], &["/api", "x/api/"]);
        check("*/x", &["/x", "a/x"], &["/x/", "x"]);
        check("/api/*/x", &["/api/1/x", "/api//x"], &["/api/x", "/api/1/y"]);
        check("a*b*c", &["abc", "a1b2c", "abbc"], &["ac", "acb", "ab"]);
        check("aa*aa", &["aaaa", "aabaa"], &["aaa", "aa"]);
        check("a**b", &["ab", "axb"], &["a"]);
        assert_eq!(Pattern::new("plain"), None);
    }

    /// Tries every way to spread the value over the stars.
    fn naive(pattern: &[u8], value: &[u8]) -> bool {
        match pattern.split_first() {
            None => value.is_empty(),
            Some((b'*', rest)) => (0..=value.len()).any(|skipped| naive(rest, &value[skipped..])),
            Some((letter, rest)) => {
                value.split_first().is_some_and(|(v, left)| v == letter && naive(rest, left))
            }
        }
    }

    proptest! {
        #[test]
        fn agrees_with_trying_everything(pattern in "[ab*]{0,3}\\*[ab*]{0,4}", value in "[ab]{0,7}") {
            let compiled = Pattern::new(&pattern).unwrap();
            prop_assert_eq!(compiled.matches(&value), naive(pattern.as_bytes(), value.as_bytes()));
        }
    }
}
