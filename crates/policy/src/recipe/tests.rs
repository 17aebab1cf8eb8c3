//! What descriptors a request has by each action. Where Envoy's own words leave a question open, the answer is what Envoy 1.40 does.
#![allow(clippy::unwrap_used, clippy::panic)]

use proptest::prelude::*;

use super::*;
use crate::rule::DefaultAlgorithm;
use crate::source::Source;
use crate::{Snapshot, read_all};

/// A request, as a test tells it.
#[derive(Default)]
struct Told {
    headers: Vec<(&'static str, &'static str)>,
    query: Vec<(&'static str, &'static str)>,
    address: Option<IpAddr>,
}

impl Facts for Told {
    fn header(&self, name: &str) -> impl Iterator<Item = Cow<'_, str>> {
        let values = self.headers.iter().filter(move |(header, _)| *header == name);
        values.map(|(_, value)| Cow::Borrowed(*value))
    }

    fn parameter(&self, name: &str) -> Option<Cow<'_, str>> {
        self.query.iter().find(|(parameter, _)| *parameter == name).map(|(_, value)| Cow::Borrowed(*value))
    }

    fn address(&self) -> Option<IpAddr> {
        self.address
    }

    fn ipv6_prefix(&self) -> u8 {
        64
    }
}

fn recipe(actions: &str) -> Recipe {
    let text = format!("domain: d\nforward_auth: [{{actions: [{{{actions}}}]}}]");
    let files = read_all(&[Source::new("rules.yaml", text)], DefaultAlgorithm::default());
    let snapshot = Snapshot::compile(files.unwrap(), None, tollgate_core::Time::default());
    assert_eq!(*snapshot.forward_auth_names(), ["d".into()]);
    snapshot.domain("d").unwrap().forward_auth()[0].clone()
}

/// The descriptor that these actions, written without the outermost braces, make of a request: `a=1 b=2`, or that there is none.
fn made(actions: &str, request: &Told) -> String {
    let recipe = recipe(actions);
    let mut entries = Vec::new();
    if !recipe.put(request, &mut entries) {
        return "none".to_owned();
    }
    entries.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
}

fn check(actions: &str, request: &Told, expected: &str) {
    assert_eq!(made(actions, request), expected, "{actions}");
}

fn with_headers(headers: &[(&'static str, &'static str)]) -> Told {
    Told { headers: headers.to_vec(), ..Told::default() }
}

fn from(address: &str) -> Told {
    Told { address: Some(address.parse().unwrap()), ..Told::default() }
}

#[test]
fn headers_are_copied() {
    let user = "request_headers: {header_name: X-User, descriptor_key: user}";
    check(user, &with_headers(&[("x-user", "ann")]), "user=ann");
    check(user, &with_headers(&[("x-user", "ann"), ("x-user", "bob")]), "user=ann");
    check(user, &with_headers(&[("x-user", "")]), "user=");
    check(user, &with_headers(&[]), "none");
    let path = r#"request_headers: {header_name: ":path", descriptor_key: path}"#;
    check(path, &with_headers(&[(":path", "/a?b")]), "path=/a?b");
}

#[test]
fn parameters_are_copied() {
    let token = "query_parameters: {query_parameter_name: t, descriptor_key: token}";
    check(token, &Told { query: vec![("t", "1"), ("t", "2")], ..Told::default() }, "token=1");
    check(token, &Told { query: vec![("T", "1")], ..Told::default() }, "none");
}

#[test]
fn entries_come_in_the_order_of_the_actions_and_nothing_drops_all() {
    let three = "generic_key: {descriptor_value: a}}, \
                 {request_headers: {header_name: x, descriptor_key: b, skip_if_absent: true}}, \
                 {generic_key: {descriptor_key: c, descriptor_value: d}";
    check(three, &with_headers(&[("x", "1")]), "generic_key=a b=1 c=d");
    check(three, &with_headers(&[]), "generic_key=a c=d");
    let strict = three.replace(", skip_if_absent: true", "");
    check(&strict, &with_headers(&[]), "none");
    let skipped = "request_headers: {header_name: x, descriptor_key: b, skip_if_absent: true}";
    check(skipped, &with_headers(&[]), "none");
}

#[test]
fn addresses() {
    check("remote_address: {}", &from("192.0.2.7"), "remote_address=192.0.2.7");
    check("remote_address: {}", &from("2001:db8:1:2:3::4"), "remote_address=2001:db8:1:2::/64");
    check("remote_address: {}", &Told::default(), "none");
    let masked = "masked_remote_address: {v4_prefix_mask_len: 24, v6_prefix_mask_len: 48}";
    check(masked, &from("192.0.2.7"), "masked_remote_address=192.0.2.0/24");
    check(masked, &from("2001:db8:1:2::4"), "masked_remote_address=2001:db8:1::/48");
    check(masked, &Told::default(), "none");
    check("masked_remote_address: {}", &from("192.0.2.7"), "masked_remote_address=192.0.2.7/32");
    check("masked_remote_address: {}", &from("2001:db8::1"), "masked_remote_address=2001:db8::1/128");
    let nothing = "masked_remote_address: {v4_prefix_mask_len: 0, v6_prefix_mask_len: 0}";
    check(nothing, &from("192.0.2.7"), "masked_remote_address=0.0.0.0/0");
    check(nothing, &from("2001:db8::1"), "masked_remote_address=::/0");
    assert_eq!(counted_as("2001:db8::1".parse().unwrap(), 128), "2001:db8::1");
}

/// Whether a header `h` with these values passes a matcher.
fn matches(matcher: &str, values: &[&'static str]) -> bool {
    let headers: Vec<_> = values.iter().map(|value| ("h", *value)).collect();
    let actions = format!("header_value_match: {{descriptor_value: v, headers: [{{name: H, {matcher}}}]}}");
    match made(&actions, &with_headers(&headers)).as_str() {
        "header_match=v" => true,
        "none" => false,
        other => panic!("{other}"),
    }
}

fn check_matcher(matcher: &str, matching: &[&[&'static str]], others: &[&[&'static str]]) {
    for values in matching {
        assert!(matches(matcher, values), "{matcher} should match {values:?}");
    }
    for values in others {
        assert!(!matches(matcher, values), "{matcher} should not match {values:?}");
    }
}

#[test]
fn matchers() {
    check_matcher("exact_match: ab", &[&["ab"], &["x", "ab"]], &[&[], &["AB"], &["abc"], &["ab,x"]]);
    check_matcher("prefix_match: ab", &[&["ab"], &["abc"]], &[&[], &["a"], &["xab"]]);
    check_matcher("suffix_match: ab", &[&["ab"], &["xab"]], &[&[], &["b"], &["abx"]]);
    check_matcher("contains_match: ab", &[&["ab"], &["xabx"]], &[&[], &["axb"]]);
    check_matcher("present_match: true", &[&[""], &["x"]], &[&[]]);
    check_matcher("present_match: false", &[&[]], &[&[""], &["x"]]);
    check_matcher("", &[&[""], &["x"]], &[&[]]);
    check_matcher(
        "range_match: {start: 1, end: 5}",
        &[&["1"], &["4"], &["9", "3"]],
        &[&[], &["0"], &["5"], &["4x"]],
    );
}

#[test]
fn matchers_of_strings() {
    check_matcher("string_match: {exact: aB}", &[&["aB"]], &[&["ab"]]);
    check_matcher("string_match: {exact: aB, ignore_case: true}", &[&["aB"], &["Ab"]], &[&["abc"]]);
    check_matcher("string_match: {prefix: AB, ignore_case: true}", &[&["abc"]], &[&["xab"], &["a"]]);
    check_matcher("string_match: {suffix: AB, ignore_case: true}", &[&["xab"]], &[&["abx"], &["b"]]);
    check_matcher("string_match: {contains: AB, ignore_case: true}", &[&["xabx"]], &[&["axb"], &[""]]);
    // A cut through the middle of a letter must not be one through the program.
    check_matcher("string_match: {prefix: ab}", &[], &[&["aé"], &["é"]]);
    check_matcher("string_match: {suffix: ab, ignore_case: true}", &[], &[&["éb"], &["é"]]);
}

#[test]
fn inverted_matchers() {
    check_matcher("exact_match: a, invert_match: true", &[&["b"], &["b", "c"]], &[&["a"], &["a", "b"], &[]]);
    check_matcher("present_match: true, invert_match: true", &[&[]], &[&["x"]]);
    check_matcher("present_match: false, invert_match: true", &[&["x"]], &[&[]]);
}

#[test]
fn missing_headers_as_empty_ones() {
    check_matcher(r#"exact_match: "", treat_missing_header_as_empty: true"#, &[&[], &[""]], &[&["x"]]);
    check_matcher(
        "exact_match: a, invert_match: true, treat_missing_header_as_empty: true",
        &[&[]],
        &[&["a"]],
    );
    check_matcher("present_match: true, treat_missing_header_as_empty: true", &[&[], &["x"]], &[]);
}

#[test]
fn all_must_match_or_not_all() {
    let both = "headers: [{name: a}, {name: b, exact_match: c}]";
    let expected = format!("header_value_match: {{descriptor_key: k, descriptor_value: v, {both}}}");
    check(&expected, &with_headers(&[("a", ""), ("b", "c")]), "k=v");
    check(&expected, &with_headers(&[("a", "")]), "none");
    let unexpected = expected.replace("headers:", "expect_match: false, headers:");
    check(&unexpected, &with_headers(&[("a", ""), ("b", "c")]), "none");
    check(&unexpected, &with_headers(&[("a", "")]), "k=v");
}

#[test]
fn parameters_match() {
    let actions = "query_parameter_value_match: {descriptor_value: v, query_parameters: [{name: p, string_match: {prefix: a}}]}";
    let with = |value| Told { query: vec![("p", value)], ..Told::default() };
    check(actions, &with("ab"), "query_match=v");
    check(actions, &with("b"), "none");
    check(actions, &Told::default(), "none");
}

proptest! {
    /// The network of an address is that of every address which shares its leading bits, and of no other.
    #[test]
    fn networks(one: u32, other: u32, length in 0..=32_u8) {
        let name = |bits| network(Ipv4Addr::from_bits(bits).into(), length);
        let is_shared = (one ^ other).leading_zeros() >= length.into();
        prop_assert_eq!(name(one) == name(other), is_shared);
    }

    #[test]
    fn networks_of_ipv6(one: u128, differing in 0..128_u32, length in 0..=128_u8) {
        let name = |bits| network(Ipv6Addr::from_bits(bits).into(), length);
        let is_shared = differing >= length.into();
        prop_assert_eq!(name(one) == name(one ^ (1 << (127 - differing))), is_shared);
    }
}
