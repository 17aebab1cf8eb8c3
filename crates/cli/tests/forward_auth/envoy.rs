//! Actions mean here what they mean in Envoy: the same list is given to both, and the same requests are sent through Envoy and to `/v1/auth`.

use serde_json::{Value, json};
use tollgate_testkit::real::{Client, Gateway, Launch};

/// An action; the entry that is blocked, if it comes of it; and requests: path and headers.
struct Case {
    action: Value,
    entry: (&'static str, &'static str),
    requests: &'static [(&'static str, &'static [(&'static str, &'static str)])],
}

fn copied(requests: &'static [(&'static str, &'static [(&'static str, &'static str)])]) -> Case {
    let action = json!({"request_headers": {"header_name": "X-User", "descriptor_key": "user"}});
    Case { action, entry: ("user", "ann"), requests }
}

/// A header `x-h` that is matched.
fn matched(mut matcher: Value) -> Case {
    matcher["name"] = "x-h".into();
    let action = json!({"header_value_match": {"descriptor_value": "v", "headers": [matcher]}});
    let requests: &[(&str, &[(&str, &str)])] = &[
        ("/", &[]),
        ("/", &[("x-h", "")]),
        ("/", &[("x-h", "ab")]),
        ("/", &[("x-h", "AB")]),
        ("/", &[("x-h", "xab")]),
        ("/", &[("x-h", "abx")]),
        ("/", &[("x-h", "b"), ("x-h", "ab")]),
        ("/", &[("x-h", "ab"), ("x-h", "b")]),
        ("/", &[("x-h", "ab,b")]),
        ("/", &[("x-h", "4")]),
        ("/", &[("x-h", "5")]),
        ("/", &[("x-h", "4x")]),
    ];
    Case { action, entry: ("header_match", "v"), requests }
}

fn of_query(action: Value, entry: (&'static str, &'static str)) -> Case {
    let requests: &[(&str, &[(&str, &str)])] = &[
        ("/", &[]),
        ("/?p", &[]),
        ("/?p=a%20b", &[]),
        ("/?p=a+b", &[]),
        ("/?q&p=a%20b&p=c", &[]),
        ("/?p=c&p=a%20b", &[]),
    ];
    Case { action, entry, requests }
}

fn cases() -> Vec<Case> {
    let skipped = json!({"request_headers": {"header_name": "x-user", "descriptor_key": "user", "skip_if_absent": true}});
    let path = json!({"request_headers": {"header_name": ":path", "descriptor_key": "path"}});
    let mut cases = vec![
        copied(&[("/", &[("x-user", "ann")]), ("/", &[("x-user", "ann"), ("x-user", "bob")])]),
        copied(&[
            ("/", &[("x-user", "bob"), ("x-user", "ann")]),
            ("/", &[("x-user", "ann,bob")]),
            ("/", &[]),
        ]),
        Case {
            action: skipped,
            entry: ("user", "ann"),
            requests: &[("/", &[("x-user", "ann")]), ("/", &[])],
        },
        Case { action: path, entry: ("path", "/a?b=c"), requests: &[("/a?b=c", &[]), ("/a", &[])] },
        Case {
            action: json!({"masked_remote_address": {"v4_prefix_mask_len": 8}}),
            entry: ("masked_remote_address", "127.0.0.0/8"),
            requests: &[("/", &[])],
        },
        Case {
            action: json!({"remote_address": {}}),
            entry: ("remote_address", "127.0.0.1"),
            requests: &[("/", &[])],
        },
        Case {
            action: json!({"generic_key": {"descriptor_value": "v"}}),
            entry: ("generic_key", "v"),
            requests: &[("/", &[])],
        },
    ];
    cases.extend([
        of_query(json!({"query_parameters": {"query_parameter_name": "p", "descriptor_key": "k"}}), ("k", "a b")),
        of_query(
            json!({"query_parameter_value_match": {
                "descriptor_value": "v", "query_parameters": [{"name": "p", "string_match": {"exact": "a b"}}],
            }}),
            ("query_match", "v"),
        ),
        of_query(
            json!({"query_parameter_value_match": {
                "descriptor_value": "v", "expect_match": false, "query_parameters": [{"name": "p"}],
            }}),
            ("query_match", "v"),
        ),
    ]);
    let tests = [
        json!({}),
        json!({"present_match": true}),
        json!({"present_match": false}),
        json!({"string_match": {"exact": "ab"}}),
        json!({"string_match": {"exact": "ab", "ignore_case": true}}),
        json!({"string_match": {"prefix": "ab"}}),
        json!({"string_match": {"suffix": "ab"}}),
        json!({"string_match": {"contains": "ab"}}),
        json!({"range_match": {"start": 1, "end": 5}}),
    ];
    for test in tests {
        for (invert, missing_is_empty) in [(false, false), (true, false), (false, true), (true, true)] {
            let mut test = test.clone();
            test["invert_match"] = invert.into();
            test["treat_missing_header_as_empty"] = missing_is_empty.into();
            cases.push(matched(test));
        }
    }
    cases
}

/// The status by each way.
fn statuses(envoy: &mut Client, tollgate: &mut Client, path: &str, headers: &[(&str, &str)]) -> (u16, u16) {
    let forwarded = [("x-forwarded-uri", path), ("x-forwarded-method", "GET")];
    let handed_over: Vec<_> = headers.iter().copied().chain(forwarded).collect();
    (envoy.get(path, headers).status, tollgate.get("/v1/auth", &handed_over).status)
}

#[test]
fn envoy_makes_the_same_descriptors() {
    let cases = cases();
    // The first entry says which case is meant, so that a request has the descriptor of one case alone.
    let recipe = |(number, case): (usize, &Case)| {
        let is_meant = json!({"name": "x-case", "string_match": {"exact": number.to_string()}});
        let gate = json!({"header_value_match": {
            "descriptor_key": "case", "descriptor_value": number.to_string(), "headers": [is_meant],
        }});
        json!({"actions": [gate, case.action]})
    };
    let recipes: Vec<Value> = cases.iter().enumerate().map(recipe).collect();
    let blocked = json!({"unit": "hour", "requests_per_unit": 0});
    let rule = |(number, case): (usize, &Case)| {
        let (key, value) = case.entry;
        json!({"key": "case", "value": number.to_string(), "descriptors": [{"key": key, "value": value, "rate_limit": blocked}]})
    };
    let descriptors: Vec<Value> = cases.iter().enumerate().map(rule).collect();
    let rules = json!({"domain": "envoy", "descriptors": descriptors, "forward_auth": recipes}).to_string();
    let tollgate = Launch::new(env!("CARGO_BIN_EXE_tollgate")).rules("envoy.json", &rules).start();
    let envoy = Gateway::new(tollgate.grpc(), json!(recipes)).start();
    let (mut by_envoy, mut by_tollgate) = (envoy.client(), Client::connect(tollgate.http()).unwrap());
    let mut seen = [0, 0];
    for (number, case) in cases.iter().enumerate() {
        for (path, headers) in case.requests {
            let number = number.to_string();
            let headers: Vec<_> = headers.iter().copied().chain([("x-case", number.as_str())]).collect();
            let (envoys, ours) = statuses(&mut by_envoy, &mut by_tollgate, path, &headers);
            assert_eq!(envoys, ours, "{} with {path} and {headers:?}", case.action);
            seen[usize::from(ours == 429)] += 1;
        }
    }
    assert!(seen.into_iter().all(|count| count > 50), "passed and blocked: {seen:?}");
}
