//! What files say: domains, descriptors, policies, and what YAML lets people write.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::{dedent, said};
use serde_json::json;
use tollgate_policy::{Allowance, DefaultAlgorithm, DescriptorSpec, FileSpec, Source, read_all};

fn file(text: &str) -> FileSpec {
    let source = Source::new("rules.yaml", dedent(text));
    read_all(&[source], DefaultAlgorithm::default()).unwrap_or_else(|e| panic!("{e}")).remove(0)
}

fn descriptors(text: &str) -> Vec<DescriptorSpec> {
    file(&format!("domain: shop\ndescriptors:\n{}", dedent(text))).domain.unwrap().descriptors
}

/// Checks the keys and values of the first level.
fn check_values(text: &str, expected: &[(&str, Option<&str>)]) {
    let found = descriptors(text);
    let found: Vec<_> = found.iter().map(|d| (d.key.as_str(), d.value.as_deref())).collect();
    assert_eq!(found, expected, "{text}");
}

#[test]
fn a_domain_of_every_key() {
    let domain = file(
        "
        ---
        domain: shop
        enabled: false
        tenant_key: tenant
        tenants: {acme: pro, 42: free}
        descriptors:
        - key: tenant
          rate_limit:
            unit: day
            requests_per_unit: 5
            tiers: {free: {requests: 1}, pro: {unlimited: true}}
          shadow_mode: true
          quota_mode: true
          detailed_metric: true
          value_to_metric: true
          enabled: false
          metadata: {owner: shop}
          descriptors:
          - key: path
            value: /files/*
            share_threshold: true
            rate_limits:
            - {unit: second, requests_per_unit: 1}
            - {unit: hour, requests_per_unit: 100}
    ",
    )
    .domain
    .unwrap();
    assert_eq!(
        (domain.name.as_str(), domain.enabled, domain.tenant_key.as_deref()),
        ("shop", false, Some("tenant"))
    );
    assert_eq!(domain.tenants, [("acme".to_owned(), "pro".to_owned()), ("42".to_owned(), "free".to_owned())]);
    let [tenant] = &domain.descriptors[..] else { panic!("one descriptor") };
    let rule = tenant.rule.as_ref().unwrap();
    assert!(tenant.value_to_metric && !tenant.share_threshold);
    assert!(rule.shadow_mode && rule.quota_mode && rule.detailed_metric && !rule.enabled);
    assert_eq!(rule.metadata.as_ref().map(|map| json!(map)), Some(json!({"owner": "shop"})));
    assert_eq!(rule.limits[0].tiers.len(), 2);
    let [path] = &tenant.descriptors[..] else { panic!("one descriptor") };
    assert!(path.share_threshold);
    assert_eq!((path.value.as_deref(), path.rule.as_ref().unwrap().limits.len()), (Some("/files/*"), 2));
}

#[test]
fn policies() {
    let file = file(
        "
        policies:
          search-standard: {requests: 100, period: 1m, burst: 20}
          login:
            shadow_mode: true
            metadata: {team: id}
            rate_limits:
            - {requests: 5, unit: minute}
            - {requests: 50, unit: day, name: daily}
    ",
    );
    assert!(file.domain.is_none());
    let names: Vec<_> = file.policies.iter().map(|policy| policy.name.as_str()).collect();
    assert_eq!(names, ["search-standard", "login"]);
    let [search, login] = &file.policies[..] else { panic!("two policies") };
    assert!(search.rule.enabled && !search.rule.shadow_mode && login.rule.shadow_mode);
    assert_eq!(search.rule.limits[0].name, None);
    assert_eq!(login.rule.limits[1].name.as_deref(), Some("daily"));
}

#[test]
fn values_are_taken_as_they_are_written() {
    check_values("- {key: status, value: 404}", &[("status", Some("404"))]);
    check_values("- {key: status, value: 007}", &[("status", Some("007"))]);
    check_values("- {key: on, value: true}", &[("on", Some("true"))]);
    check_values("- {key: 1.50, value: 1e3}", &[("1.50", Some("1e3"))]);
    check_values("- {key: path, value: '*'}", &[("path", Some("*"))]);
    check_values("- {key: path, value: !!str 5}", &[("path", Some("5"))]);
    check_values("- {key: path, value: 'null'}", &[("path", Some("null"))]);
    check_values("- {key: päth, value: \"\\u00fc\"}", &[("päth", Some("ü"))]);
}

#[test]
fn no_value_is_any_value() {
    check_values(
        "- key: a\n- {key: b, value: ''}\n- {key: c, value: }\n- {key: d, value: ~}",
        &[("a", None), ("b", None), ("c", None), ("d", None)],
    );
}

#[test]
fn a_value_differs_from_none_and_from_what_joins_to_the_same() {
    check_values(
        "- key: a\n- {key: a, value: b}\n- {key: a_b}\n- {key: a, value: B}",
        &[("a", None), ("a", Some("b")), ("a_b", None), ("a", Some("B"))],
    );
}

#[test]
fn without_a_limit_there_is_no_rule() {
    let found = descriptors(
        "- {key: a, shadow_mode: true, quota_mode: true, metadata: {x: 1}}\n- {key: b, replaces: }"
            .split('\n')
            .next()
            .unwrap(),
    );
    assert_eq!(found[0].rule, None);
}

#[test]
fn keys_without_a_value_where_nothing_is_meant() {
    for text in [
        "domain: shop\ndescriptors:\n",
        "domain: shop\ndescriptors: []\npolicies: {}\ntenants:\ntenant_key: user\n",
        "domain: shop\ndescriptors:\n- key: a\n  metadata:\n  descriptors:\n  value:\n",
        "domain: shop\ndescriptors:\n- key: a\n  rate_limit: {unlimited: true, name: , replaces: }\n",
    ] {
        assert_eq!(said(text), "(nothing is wrong)", "{text}");
    }
}

#[test]
fn metadata_is_json() {
    let found = descriptors(
        "
        - key: a
          rate_limit: {unlimited: true}
          metadata:
            text: gold
            quoted: '5'
            number: 5
            negative: -5
            half: 0.5
            huge: 99999999999999999999
            yes: true
            none: ~
            list: [1, {a: b}]
            7: seven
    ",
    );
    let expected = json!({
        "text": "gold", "quoted": "5", "number": 5, "negative": -5, "half": 0.5, "huge": "99999999999999999999",
        "yes": true, "none": null, "list": [1, {"a": "b"}], "7": "seven",
    });
    assert_eq!(json!(found[0].rule.as_ref().unwrap().metadata), expected);
}

#[test]
fn aliases_and_merge_keys() {
    let found = descriptors(
        "
        - key: a
          rate_limit: &base {unit: day, requests_per_unit: 1, name: base}
        - key: b
          rate_limit: *base
        - key: c
          rate_limit:
            <<: *base
            requests_per_unit: 2
        - key: d
          rate_limit:
            requests_per_unit: 3
            <<: [{unit: hour}, *base]
        - key: e
          rate_limit: {'unit': day, requests_per_unit: 4}
    ",
    );
    let told: Vec<_> = found
        .iter()
        .map(|descriptor| {
            let limit = &descriptor.rule.as_ref().unwrap().limits[0];
            let Allowance::Quota(quota) = &limit.allowance else { panic!("unlimited") };
            (quota.units, quota.period.unit().unwrap().name(), limit.name.as_deref())
        })
        .collect();
    assert_eq!(
        told,
        [
            (1, "day", Some("base")),
            (1, "day", Some("base")),
            (2, "day", Some("base")),
            (3, "hour", Some("base")),
            (4, "day", None),
        ]
    );
}

#[test]
fn json_with_tabs_is_yaml() {
    assert_eq!(
        said("{\"domain\": \"shop\",\n\t\"descriptors\": [\n\t\t{\"key\": \"a\"}\n\t]\n}\n"),
        "(nothing is wrong)"
    );
}

#[test]
fn byte_order_mark_and_end_marker() {
    assert_eq!(said("\u{feff}domain: shop\n"), "(nothing is wrong)");
    assert_eq!(said("%YAML 1.2\n---\ndomain: shop\n...\n"), "(nothing is wrong)");
}

/// A configuration as users of envoyproxy/ratelimit have it, with each of its keys.
#[test]
fn a_plain_configuration_of_envoyproxy_ratelimit() {
    let file = file(
        "
        domain: edge
        descriptors:
          - key: plan
            value: trial
            rate_limit:
              name: trial
              replaces:
                - name: fallback
                - name: nobody
              unit: MINUTE
              requests_per_unit: 4
          - key: from_cluster
            value: web
            descriptors:
              - key: to_cluster
                value: search*
                share_threshold: true
                value_to_metric: true
                rate_limit: {unit: second, requests_per_unit: 25}
              - key: to_cluster
                rate_limit:
                  name: fallback
                  unit: hour
                  requests_per_unit: 0
          - key: health
            rate_limit:
              unlimited: true
          - key: listed
            value: friend
          - key: listed
            detailed_metric: true
            quota_mode: true
            shadow_mode: false
            rate_limit: {unit: week, requests_per_unit: 7}
            metadata:
              quota: {owner: team-a}
    ",
    );
    assert_eq!(file.domain.unwrap().descriptors.len(), 5);
}
