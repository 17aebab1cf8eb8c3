//! What people are told who ask why.
#![allow(clippy::unwrap_used)]

use tollgate_core::Time;
use tollgate_policy::{DefaultAlgorithm, Snapshot, Source, read_all};

const RULES: &str = r"
domain: shop
tenant_key: customer
tenants: {acme: pro}
descriptors:
- key: path
  value: /login
  rate_limit: {unit: minute, requests_per_unit: 5}
- key: path
  value: /api/*
  shadow_mode: true
  rate_limit: {requests: 100, period: 90s, enforce_percent: 20}
- key: path
- key: customer
  rate_limit: {unit: hour, requests_per_unit: 10, tiers: {pro: {requests_per_unit: 1000}}}
";

fn explain(domain: &str, entries: &[(&str, &str)]) -> String {
    let specs = read_all(&[Source::new("rules.yaml", RULES)], DefaultAlgorithm::default()).unwrap();
    Snapshot::compile(specs, None, Time::default()).explain(domain, entries).to_string()
}

#[test]
fn a_rule_that_is_met() {
    insta::assert_snapshot!(explain("shop", &[("path", "/login")]));
    insta::assert_snapshot!(explain("shop", &[("path", "/api/users")]));
    insta::assert_snapshot!(explain("shop", &[("customer", "acme")]));
}

#[test]
fn nothing_that_is_met() {
    insta::assert_snapshot!(explain("shop", &[("path", "/other")]));
    insta::assert_snapshot!(explain("shop", &[("path", "/login"), ("user", "1")]));
    insta::assert_snapshot!(explain("shop", &[("user", "1")]));
    insta::assert_snapshot!(explain("other", &[("user", "1")]));
}
