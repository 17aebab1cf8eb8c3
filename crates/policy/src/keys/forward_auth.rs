//! The keys below `forward_auth`: Envoy's actions, as far as they can be had without being Envoy.

use super::{KEY_CHARS_MAX, Key, Kind, Table, VALUE_CHARS_MAX, key};

/// The longest name of a header or of a parameter of a query.
pub(crate) const PART_NAME_CHARS_MAX: usize = 256;
/// How many bits an IPv4 and an IPv6 address have.
pub(crate) const V4_BITS: u64 = 32;
pub(crate) const V6_BITS: u64 = 128;
/// Where the numbers of `range_match` end.
pub(crate) const RANGE_MAX: u64 = i64::MAX as u64;

pub(crate) static RECIPE: Table = Table {
    id: "recipe",
    title: "an entry of `forward_auth`",
    home: "inside an entry of `forward_auth`",
    groups: &[RECIPE_KEYS],
    required: &["actions"],
};
pub(crate) static ACTION: Table = Table {
    id: "action",
    title: "an action",
    home: "inside an entry of `actions`",
    groups: &[ACTION_KEYS],
    required: &[],
};
pub(crate) static REQUEST_HEADERS: Table = Table {
    id: "request_headers",
    title: "`request_headers`",
    home: "inside `request_headers`",
    groups: &[REQUEST_HEADERS_KEYS, COPIED_KEYS],
    required: &["header_name", "descriptor_key"],
};
pub(crate) static QUERY_PARAMETERS: Table = Table {
    id: "query_parameters",
    title: "`query_parameters`",
    home: "inside `query_parameters`",
    groups: &[QUERY_PARAMETERS_KEYS, COPIED_KEYS],
    required: &["query_parameter_name", "descriptor_key"],
};
pub(crate) static REMOTE_ADDRESS: Table = Table {
    id: "remote_address",
    title: "`remote_address`",
    home: "inside `remote_address`",
    groups: &[],
    required: &[],
};
pub(crate) static MASKED_REMOTE_ADDRESS: Table = Table {
    id: "masked_remote_address",
    title: "`masked_remote_address`",
    home: "inside `masked_remote_address`",
    groups: &[MASKED_KEYS],
    required: &[],
};
pub(crate) static GENERIC_KEY: Table = Table {
    id: "generic_key",
    title: "`generic_key`",
    home: "inside `generic_key`",
    groups: &[FIXED_KEYS],
    required: &["descriptor_value"],
};
pub(crate) static HEADER_VALUE_MATCH: Table = Table {
    id: "header_value_match",
    title: "`header_value_match`",
    home: "inside `header_value_match`",
    groups: &[FIXED_KEYS, EXPECT_KEYS, HEADERS_KEYS],
    required: &["descriptor_value", "headers"],
};
pub(crate) static QUERY_PARAMETER_VALUE_MATCH: Table = Table {
    id: "query_parameter_value_match",
    title: "`query_parameter_value_match`",
    home: "inside `query_parameter_value_match`",
    groups: &[FIXED_KEYS, EXPECT_KEYS, PARAMETERS_KEYS],
    required: &["descriptor_value", "query_parameters"],
};
pub(crate) static HEADER_MATCHER: Table = Table {
    id: "header_matcher",
    title: "an entry of `headers`",
    home: "inside an entry of `headers`",
    groups: &[NAME_KEYS, PRESENT_KEYS, HEADER_TEST_KEYS],
    required: &["name"],
};
pub(crate) static PARAMETER_MATCHER: Table = Table {
    id: "query_parameter_matcher",
    title: "an entry of `query_parameters`",
    home: "inside an entry of `query_parameters`",
    groups: &[NAME_KEYS, PRESENT_KEYS],
    required: &["name"],
};
pub(crate) static STRING_MATCH: Table = Table {
    id: "string_match",
    title: "a `string_match`",
    home: "inside `string_match`",
    groups: &[STRING_KEYS],
    required: &[],
};
pub(crate) static RANGE_MATCH: Table = Table {
    id: "range_match",
    title: "a `range_match`",
    home: "inside `range_match`",
    groups: &[RANGE_KEYS],
    required: &["start", "end"],
};

/// All of them.
pub(crate) static TABLES: [&Table; 13] = [
    &RECIPE,
    &ACTION,
    &REQUEST_HEADERS,
    &QUERY_PARAMETERS,
    &REMOTE_ADDRESS,
    &MASKED_REMOTE_ADDRESS,
    &GENERIC_KEY,
    &HEADER_VALUE_MATCH,
    &QUERY_PARAMETER_VALUE_MATCH,
    &HEADER_MATCHER,
    &PARAMETER_MATCHER,
    &STRING_MATCH,
    &RANGE_MATCH,
];

const RECIPE_KEYS: &[Key] =
    &[key("actions", Kind::ListOf(&ACTION), "What makes the entries of the descriptor, in their order.")];

/// One of them makes an action.
#[rustfmt::skip]
const ACTION_KEYS: &[Key] = &[
    key("request_headers", Kind::One(&REQUEST_HEADERS), "The value of a header."),
    key("query_parameters", Kind::One(&QUERY_PARAMETERS), "The value of a parameter of the query."),
    key("remote_address", Kind::One(&REMOTE_ADDRESS), "The client's address; that of an IPv6 client by the setting `ipv6_prefix`."),
    key("masked_remote_address", Kind::One(&MASKED_REMOTE_ADDRESS), "The network that the client's address is in."),
    key("generic_key", Kind::One(&GENERIC_KEY), "Always the same entry."),
    key("header_value_match", Kind::One(&HEADER_VALUE_MATCH), "A fixed entry, if the headers are of a kind."),
    key("query_parameter_value_match", Kind::One(&QUERY_PARAMETER_VALUE_MATCH), "A fixed entry, if the query is of a kind."),
];

const REQUEST_HEADERS_KEYS: &[Key] = &[key(
    "header_name",
    Kind::TextUpTo(PART_NAME_CHARS_MAX),
    "The name of the header; also :path, :method, :authority and :scheme.",
)];

const QUERY_PARAMETERS_KEYS: &[Key] =
    &[key("query_parameter_name", Kind::TextUpTo(PART_NAME_CHARS_MAX), "The name of the parameter.")];

#[rustfmt::skip]
const COPIED_KEYS: &[Key] = &[
    key("descriptor_key", Kind::TextUpTo(KEY_CHARS_MAX), "The key of the entry."),
    key("skip_if_absent", Kind::Boolean, "Where there is no such value, leaves out this entry only, and not the whole descriptor."),
];

#[rustfmt::skip]
const MASKED_KEYS: &[Key] = &[
    key("v4_prefix_mask_len", Kind::Whole(0, V4_BITS), "How many leading bits of an IPv4 address are kept; all 32 by default."),
    key("v6_prefix_mask_len", Kind::Whole(0, V6_BITS), "How many leading bits of an IPv6 address are kept; all 128 by default."),
];

#[rustfmt::skip]
const FIXED_KEYS: &[Key] = &[
    key("descriptor_value", Kind::TextUpTo(VALUE_CHARS_MAX), "The value of the entry."),
    key("descriptor_key", Kind::TextUpTo(KEY_CHARS_MAX), "The key of the entry; `generic_key`, `header_match` or `query_match` by default."),
];

const EXPECT_KEYS: &[Key] =
    &[key("expect_match", Kind::Boolean, "Whether the request must match, as by default, or must not.")];

const HEADERS_KEYS: &[Key] =
    &[key("headers", Kind::ListOf(&HEADER_MATCHER), "What the headers must be, all of them.")];

const PARAMETERS_KEYS: &[Key] =
    &[key("query_parameters", Kind::ListOf(&PARAMETER_MATCHER), "What the parameters must be, all of them.")];

const NAME_KEYS: &[Key] =
    &[key("name", Kind::TextUpTo(PART_NAME_CHARS_MAX), "The name of the header or parameter.")];

/// The tests of headers and of parameters. With none, the name must be there.
#[rustfmt::skip]
const PRESENT_KEYS: &[Key] = &[
    key("present_match", Kind::Boolean, "Whether it must be there, or must not."),
    key("string_match", Kind::One(&STRING_MATCH), "What its value must be."),
];

#[rustfmt::skip]
const HEADER_TEST_KEYS: &[Key] = &[
    key("exact_match", Kind::TextUpTo(VALUE_CHARS_MAX), "The value is this text."),
    key("prefix_match", Kind::TextUpTo(VALUE_CHARS_MAX), "The value begins so."),
    key("suffix_match", Kind::TextUpTo(VALUE_CHARS_MAX), "The value ends so."),
    key("contains_match", Kind::TextUpTo(VALUE_CHARS_MAX), "This text stands in the value."),
    key("range_match", Kind::One(&RANGE_MATCH), "The value is a whole number of a range."),
    key("invert_match", Kind::Boolean, "Whether the value must not be so."),
    key("treat_missing_header_as_empty", Kind::Boolean, "Whether a header that is not there counts as an empty one."),
];

#[rustfmt::skip]
const STRING_KEYS: &[Key] = &[
    key("exact", Kind::TextUpTo(VALUE_CHARS_MAX), "The value is this text."),
    key("prefix", Kind::TextUpTo(VALUE_CHARS_MAX), "The value begins so."),
    key("suffix", Kind::TextUpTo(VALUE_CHARS_MAX), "The value ends so."),
    key("contains", Kind::TextUpTo(VALUE_CHARS_MAX), "This text stands in the value."),
    key("ignore_case", Kind::Boolean, "Whether letters of ASCII mean the same in either case."),
];

#[rustfmt::skip]
const RANGE_KEYS: &[Key] = &[
    key("start", Kind::Whole(0, RANGE_MAX), "The first number that is meant."),
    key("end", Kind::Whole(0, RANGE_MAX), "The first number that is not meant any more."),
];

const NO_REGEX: &str = "regular expressions are not supported: use exact, prefix, suffix or contains";
const OF_ENVOY_ALONE: &str = "only Envoy itself knows that: use request_headers, query_parameters, remote_address, \
                              masked_remote_address, generic_key, header_value_match or query_parameter_value_match";
const OF_ENVOYS_FILTER: &str = "that is for Envoy's filter; here, an entry has `actions` alone";

/// What Envoy has and we have not: the table, the key, and what to say.
const MISSING: &[(&str, &str, &str)] = &[
    ("recipe", "stage", OF_ENVOYS_FILTER),
    ("recipe", "disable_key", OF_ENVOYS_FILTER),
    ("recipe", "limit", OF_ENVOYS_FILTER),
    ("recipe", "hits_addend", OF_ENVOYS_FILTER),
    ("recipe", "apply_on_stream_done", OF_ENVOYS_FILTER),
    ("action", "source_cluster", OF_ENVOY_ALONE),
    ("action", "destination_cluster", OF_ENVOY_ALONE),
    ("action", "dynamic_metadata", OF_ENVOY_ALONE),
    ("action", "metadata", OF_ENVOY_ALONE),
    ("action", "extension", OF_ENVOY_ALONE),
    ("header_matcher", "safe_regex_match", NO_REGEX),
    ("string_match", "safe_regex", NO_REGEX),
    ("string_match", "custom", NO_REGEX),
];

/// What to say to whoever wrote a key that Envoy has and we have not.
pub(super) fn missing(table: &Table, name: &str) -> Option<&'static str> {
    let found = MISSING.iter().find(|(id, key, _)| *id == table.id && *key == name);
    found.map(|(_, _, advice)| *advice)
}
