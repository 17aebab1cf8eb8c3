//! What headers and parameters must be, for an action to make an entry.

use super::Reader;
use super::fields::Fields;
use crate::keys::VALUE_CHARS_MAX;
use crate::keys::forward_auth::{HEADER_MATCHER, PARAMETER_MATCHER, RANGE_MATCH, RANGE_MAX, STRING_MATCH};
use crate::recipe::{Matcher, Part, Test};
use crate::yaml::{Entry, Node};

/// The most matchers of one action.
const MATCHERS_MAX: usize = 32;

/// A key that holds what a value is compared with, and the test that it stands for.
type TextTest = (&'static str, fn(String) -> Test);

const HEADER_TEXT_TESTS: [TextTest; 4] = [
    ("exact_match", Test::Exact),
    ("prefix_match", Test::Prefix),
    ("suffix_match", Test::Suffix),
    ("contains_match", Test::Contains),
];
const STRING_TESTS: [TextTest; 4] = [
    ("exact", Test::Exact),
    ("prefix", Test::Prefix),
    ("suffix", Test::Suffix),
    ("contains", Test::Contains),
];

/// All tests of a matcher, of which it has one.
const TESTS: [&str; 7] = [
    "present_match",
    "string_match",
    "exact_match",
    "prefix_match",
    "suffix_match",
    "contains_match",
    "range_match",
];

const ONE_TEST: &str = "keep one of them; a request that must pass both needs two entries of the list";

impl Reader<'_, '_> {
    /// The entries of `headers`.
    pub(super) fn header_matchers(&mut self, entry: &Entry) -> Option<Vec<Matcher>> {
        self.matchers(entry, Reader::header_matcher)
    }

    /// The entries of `query_parameters`.
    pub(super) fn parameter_matchers(&mut self, entry: &Entry) -> Option<Vec<Matcher>> {
        self.matchers(entry, Reader::parameter_matcher)
    }

    fn matchers(
        &mut self,
        entry: &Entry,
        read: impl Fn(&mut Self, &Node) -> Option<Matcher>,
    ) -> Option<Vec<Matcher>> {
        let items = self.list_up_to(entry, MATCHERS_MAX)?;
        if items.is_empty() {
            let hint = "give it at least one entry, such as `- name: NAME`; for an entry that is always the same there is `generic_key`";
            self.wrong(entry.key_mark, format!("`{}` is empty", entry.key), hint);
            return None;
        }
        let mut matchers = Vec::with_capacity(items.len());
        for item in items.iter() {
            matchers.extend(read(self, item));
        }
        Some(matchers)
    }

    fn header_matcher(&mut self, node: &Node) -> Option<Matcher> {
        let fields = self.fields(node, &HEADER_MATCHER, node.mark)?;
        self.check_required(&fields);
        let name = self.part_name(&fields, Part::Header, "name");
        let test = self.header_test(&fields);
        let invert_match = self.flag(&fields, "invert_match", false);
        let treat_missing_header_as_empty = self.flag(&fields, "treat_missing_header_as_empty", false);
        let (test, ignore_case) = test?;
        Some(Matcher { name: name?, test, ignore_case, invert_match, treat_missing_header_as_empty })
    }

    fn parameter_matcher(&mut self, node: &Node) -> Option<Matcher> {
        let fields = self.fields(node, &PARAMETER_MATCHER, node.mark)?;
        self.check_required(&fields);
        let name = self.part_name(&fields, Part::Query, "name");
        let (test, ignore_case) = self.test(&fields)?;
        Some(Matcher {
            name: name?,
            test,
            ignore_case,
            invert_match: false,
            treat_missing_header_as_empty: false,
        })
    }

    /// The one test of a header, and whether it ignores case.
    fn header_test(&mut self, fields: &Fields) -> Option<(Test, bool)> {
        if let Some((key, make)) = HEADER_TEXT_TESTS.into_iter().find(|(key, _)| fields.has(key)) {
            self.only_one(fields, &TESTS, ONE_TEST);
            return Some((make(self.wanted(fields, key)?), false));
        }
        if fields.has("range_match") {
            self.only_one(fields, &TESTS, ONE_TEST);
            return Some((self.field(fields, "range_match", Reader::range).value()?, false));
        }
        self.test(fields)
    }

    /// The one test that headers and parameters have in common, and whether it ignores case.
    fn test(&mut self, fields: &Fields) -> Option<(Test, bool)> {
        self.only_one(fields, &TESTS, ONE_TEST);
        if fields.has("string_match") {
            return self.field(fields, "string_match", Reader::string_match).value();
        }
        if fields.has("present_match") {
            return Some((
                Test::Present(self.field(fields, "present_match", Reader::boolean).value()?),
                false,
            ));
        }
        // A test that was misspelled must not turn into another one.
        fields.knows_all().then_some((Test::Present(true), false))
    }

    fn string_match(&mut self, entry: &Entry) -> Option<(Test, bool)> {
        let fields = self.fields(&entry.value, &STRING_MATCH, entry.key_mark)?;
        self.only_one(&fields, &STRING_TESTS.map(|(key, _)| key), ONE_TEST);
        let ignore_case = self.flag(&fields, "ignore_case", false);
        let Some((key, make)) = STRING_TESTS.into_iter().find(|(key, _)| fields.has(key)) else {
            if fields.knows_all() {
                let hint = "write `string_match: {exact: TEXT}`; or prefix, suffix, contains";
                self.wrong(fields.mark, "a `string_match` does not say what to look for", hint);
            }
            return None;
        };
        Some((make(self.wanted(&fields, key)?), ignore_case))
    }

    /// What a value is compared with. Only an exact one may be empty: all values begin with nothing.
    fn wanted(&mut self, fields: &Fields, key: &'static str) -> Option<String> {
        if key.starts_with("exact") {
            return self
                .field(fields, key, |reader, entry| reader.text_up_to(entry, VALUE_CHARS_MAX))
                .value();
        }
        self.filled(fields, key, VALUE_CHARS_MAX)
    }

    fn range(&mut self, entry: &Entry) -> Option<Test> {
        let fields = self.fields(&entry.value, &RANGE_MATCH, entry.key_mark)?;
        self.check_required(&fields);
        let mut number = |key| {
            let number =
                self.field(&fields, key, |reader, entry| reader.whole_up_to(entry, RANGE_MAX)).value()?;
            i64::try_from(number).ok()
        };
        let (start, end) = (number("start"), number("end"));
        let (start, end) = (start?, end?);
        if start >= end {
            let what = format!("no number is from {start} to before {end}");
            self.wrong(fields.mark, what, "the `end` is not meant itself: make it larger than the `start`");
        }
        Some(Test::Range { start, end })
    }
}
