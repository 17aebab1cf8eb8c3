//! What a message may ask: costs, refunds, limits of its own, and what cannot be asked.

use tonic::Code;

use super::super::decode::{DESCRIPTORS_MAX, ENTRIES_MAX};
use super::super::wire::RateLimitUnit;
use super::*;

const RULES: &str = r"
domain: d
descriptors:
- key: ten
  rate_limit: {unit: minute, requests_per_unit: 10}
- key: other
  rate_limit: {unit: minute, requests_per_unit: 10}
- key: deep
  descriptors:
  - key: deeper
    rate_limit: {unit: minute, requests_per_unit: 10}
- key: vast
  rate_limit: {requests: 18446744073709551615, period: 1m, algorithm: fixed_window}
";

fn check_refused(message: &RateLimitRequest, code: Code, text: &str) {
    let status = tonic::Status::from(answer(&gate(RULES), message).unwrap_err());
    assert_eq!((status.code(), status.message()), (code, text));
}

#[test]
fn a_cost_of_zero_for_the_whole_means_one() {
    let gate = gate(RULES);
    check(&gate, &RateLimitRequest { hits_addend: 0, ..message(&[of("ten")]) }, "OK | OK 9 of 10/MINUTE 30s");
    check(&gate, &RateLimitRequest { hits_addend: 1, ..message(&[of("ten")]) }, "OK | OK 8 of 10/MINUTE 30s");
    check(&gate, &RateLimitRequest { hits_addend: 5, ..message(&[of("ten")]) }, "OK | OK 3 of 10/MINUTE 30s");
}

#[test]
fn a_descriptors_own_cost_comes_first() {
    let both = RateLimitRequest { hits_addend: 2, ..message(&[costing("ten", 4), of("other")]) };
    check(&gate(RULES), &both, "OK | OK 6 of 10/MINUTE 30s | OK 8 of 10/MINUTE 30s");
}

#[test]
fn a_descriptors_own_cost_of_zero_takes_nothing() {
    let gate = gate(RULES);
    let peek = RateLimitRequest { hits_addend: 7, ..message(&[costing("ten", 0)]) };
    check(&gate, &peek, "OK | OK 10 of 10/MINUTE 30s");
    check(&gate, &peek, "OK | OK 10 of 10/MINUTE 30s");
}

#[test]
fn a_descriptors_own_cost_is_booked_beyond_the_limit() {
    let gate = gate(RULES);
    check(&gate, &message(&[costing("ten", 15)]), "OVER_LIMIT | OVER_LIMIT 0 of 10/MINUTE 30s");
    check(&gate, &message(&[costing("ten", 0)]), "OVER_LIMIT | OVER_LIMIT 0 of 10/MINUTE 50s");
    // The request's own is not.
    let dear = RateLimitRequest { hits_addend: 15, ..message(&[of("other")]) };
    check(&gate, &dear, "OVER_LIMIT | OVER_LIMIT 0 of 10/MINUTE 30s");
    check(&gate, &message(&[of("other")]), "OK | OK 9 of 10/MINUTE 30s");
}

#[test]
fn units_come_back_and_never_above_full() {
    let gate = gate(RULES);
    check(&gate, &message(&[costing("ten", 6)]), "OK | OK 4 of 10/MINUTE 30s");
    check(&gate, &message(&[giving_back("ten", Some(2))]), "OK | OK 6 of 10/MINUTE 30s");
    let by_request = RateLimitRequest { hits_addend: 3, ..message(&[giving_back("ten", None)]) };
    check(&gate, &by_request, "OK | OK 9 of 10/MINUTE 30s");
    check(&gate, &message(&[giving_back("ten", Some(u64::MAX))]), "OK | OK 10 of 10/MINUTE 30s");
}

#[test]
fn units_that_come_back_to_a_key_in_debt_are_no_denial() {
    let gate = gate(RULES);
    check(&gate, &message(&[costing("ten", 18)]), "OVER_LIMIT | OVER_LIMIT 0 of 10/MINUTE 30s");
    // Overall and for the descriptor alike: a proxy that sees both must not be told two things.
    check(&gate, &message(&[giving_back("ten", Some(1))]), "OK | OK 0 of 10/MINUTE 30s");
}

#[test]
fn costs_of_any_size() {
    let gate = gate(RULES);
    let dear = RateLimitRequest { hits_addend: u32::MAX, ..message(&[of("ten")]) };
    check(&gate, &dear, "OVER_LIMIT | OVER_LIMIT 0 of 10/MINUTE 30s");
    check(&gate, &message(&[of("ten")]), "OK | OK 9 of 10/MINUTE 30s");
    let all = message(&[costing("vast", u64::MAX)]);
    check(&gate, &all, "OK | OK 0 of 4294967295/MINUTE 30s");
    check(&gate, &all, "OVER_LIMIT | OVER_LIMIT 0 of 4294967295/MINUTE 30s");
}

#[test]
fn a_limit_of_its_own_takes_the_place_of_the_rules() {
    let gate = gate(RULES);
    let two = message(&[limited("ten", 2, RateLimitUnit::Hour.into())]);
    check(&gate, &two, "OK | OK 1 of 2/HOUR 2790s");
    check(&gate, &two, "OK | OK 0 of 2/HOUR 2790s");
    check(&gate, &two, "OVER_LIMIT | OVER_LIMIT 0 of 2/HOUR 4590s");
    check(&gate, &message(&[of("ten")]), "OK | OK 9 of 10/MINUTE 30s");
    check(
        &gate,
        &message(&[limited("new", 0, RateLimitUnit::Minute.into())]),
        "OVER_LIMIT | OVER_LIMIT 0 of 0/MINUTE 30s",
    );
    let most = message(&[limited("new", u32::MAX, RateLimitUnit::Minute.into())]);
    check(&gate, &most, "OK | OK 4294967294 of 4294967295/MINUTE 30s");
}

#[test]
fn every_unit_of_a_limit_of_its_own() {
    let units = ["SECOND", "MINUTE", "HOUR", "DAY", "MONTH", "YEAR"];
    for name in units {
        let unit = RateLimitUnit::from_str_name(name).unwrap();
        let told = answer(&gate(RULES), &message(&[limited("ten", 3, unit.into())])).unwrap();
        assert_eq!(told.statuses[0].current_limit.as_ref().unwrap().unit().as_str_name(), name);
    }
}

#[test]
fn a_unit_that_does_not_exist() {
    let text =
        "descriptor 1: its own limit has an unknown unit; use second, minute, hour, day, month or year";
    for unit in [0, 7, 99, -1, i32::MAX, i32::MIN] {
        check_refused(&message(&[of("ten"), limited("ten", 2, unit)]), Code::Unknown, text);
    }
}

#[test]
fn what_cannot_be_asked() {
    let nowhere = RateLimitRequest { domain: String::new(), ..message(&[of("ten")]) };
    check_refused(&nowhere, Code::Unknown, "rate limit domain must not be empty");
    check_refused(&message(&[]), Code::Unknown, "rate limit descriptor list must not be empty");
    let unloaded = Gate::new(settings()).unwrap();
    let status = tonic::Status::from(answer(&unloaded, &message(&[of("ten")])).unwrap_err());
    assert_eq!((status.code(), status.message()), (Code::Unknown, "no rate limit configuration loaded"));
}

#[test]
fn as_many_descriptors_and_entries_as_may_be() {
    let many = message(&vec![of("unknown"); DESCRIPTORS_MAX]);
    assert_eq!(answer(&gate(RULES), &many).unwrap().statuses.len(), DESCRIPTORS_MAX);
    let text = "the request has more than 128 descriptors";
    check_refused(&message(&vec![of("ten"); DESCRIPTORS_MAX + 1]), Code::InvalidArgument, text);

    let deep = message(&[descriptor(&[("a", "b"); ENTRIES_MAX])]);
    check(&gate(RULES), &deep, "OK | OK 0");
    let text = "descriptor 1 has more than 32 entries";
    let deeper = message(&[of("ten"), descriptor(&[("a", "b"); ENTRIES_MAX + 1])]);
    check_refused(&deeper, Code::InvalidArgument, text);
}

#[test]
fn entries_stay_with_their_descriptors() {
    let mixed = message(&[of("ten"), descriptor(&[("deep", "x"), ("deeper", "y")]), of("other")]);
    let each = "OK 9 of 10/MINUTE 30s";
    check(&gate(RULES), &mixed, &format!("OK | {each} | {each} | {each}"));
}

#[test]
fn values_that_are_long_or_no_text_are_counted() {
    let gate = gate(RULES);
    let long = message(&[descriptor(&[("ten", &"v".repeat(500_000))])]);
    check(&gate, &long, "OK | OK 9 of 10/MINUTE 30s");
    check(&gate, &long, "OK | OK 8 of 10/MINUTE 30s");
    let mut binary = message(&[of("ten")]);
    binary.descriptors[0].entries[0].value = vec![0xff, 0xfe, 0x00];
    check(&gate, &binary, "OK | OK 9 of 10/MINUTE 30s");
    check(&gate, &binary, "OK | OK 8 of 10/MINUTE 30s");
}
