//! What people write for a moment.

use serde_json::json;

use super::*;

fn noon() -> Timestamp {
    "2026-11-17T12:00:00Z".parse().unwrap()
}

fn check(text: &str, ahead_is: &str, back_is: &str) {
    assert_eq!(ahead(text, noon()).map(rfc3339), Ok(ahead_is.to_owned()), "{text}");
    assert_eq!(back(text, noon()).map(rfc3339), Ok(back_is.to_owned()), "{text}");
}

fn check_refused(text: &str, part: &str) {
    let told = ahead(text, noon()).unwrap_err();
    assert!(told.contains(part), "{text}: {told}");
}

#[test]
fn a_moment_is_itself() {
    for text in ["2026-02-01T00:00:00Z", "2026-02-01", "2026-02-01T01:00:00+01:00", " 2026-02-01T00:00:00Z "]
    {
        check(text, "2026-02-01T00:00:00Z", "2026-02-01T00:00:00Z");
    }
    check("now", "2026-11-17T12:00:00Z", "2026-11-17T12:00:00Z");
}

#[test]
fn a_length_of_time_is_meant_from_now() {
    check("2h", "2026-11-17T14:00:00Z", "2026-11-17T10:00:00Z");
    check("1h30m", "2026-11-17T13:30:00Z", "2026-11-17T10:30:00Z");
    check("90s", "2026-11-17T12:01:30Z", "2026-11-17T11:58:30Z");
    check("250ms", "2026-11-17T12:00:00.25Z", "2026-11-17T11:59:59.75Z");
    check("7d", "2026-11-24T12:00:00Z", "2026-11-10T12:00:00Z");
    check("2 weeks", "2026-12-01T12:00:00Z", "2026-11-03T12:00:00Z");
}

#[test]
fn what_is_no_moment_is_refused() {
    check_refused("2026-02-01T00:00:00", "zone");
    check_refused("tomorrow", "2h");
    check_refused("", "2h");
    check_refused("10", "2h");
    check_refused("-2h", "negative");
    check_refused("99999999y", "");
    check_refused("2026-13-01", "no moment");
}

#[test]
fn moments_are_told() {
    let check = |value: serde_json::Value, told: &str| assert_eq!(told_from(&value, noon(), "never"), told);
    check(json!("2026-11-17T14:05:09.123Z"), "2026-11-17T14:05:09Z (in 2h 5m)");
    check(json!("2026-11-17T11:59:20Z"), "2026-11-17T11:59:20Z (40s ago)");
    check(json!(1_794_916_800), "2026-11-17T12:00:00Z (now)");
    check(json!(null), "never");
    check(json!("soon"), "soon");
    for (window_s, told) in
        [(json!(60.0), "1m"), (json!(3600), "1h"), (json!(0.25), "0.25s"), (json!(null), "-")]
    {
        assert_eq!(window(&window_s), told);
    }
    let lengths = [(0, "0s"), (59, "59s"), (60, "1m"), (3_601, "1h"), (90_000, "1d 1h"), (86_400, "1d")];
    for (seconds, told) in lengths {
        assert_eq!(length(seconds), told);
    }
}
