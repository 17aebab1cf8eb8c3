//! Limits that requests bring along have a part of the memory of their own: a flood of them leaves the counters of rules alone.
#![allow(clippy::panic, clippy::unwrap_used)] // A test stops at the first surprise.

mod common;

use common::{START, ask, engine};
use tollgate::core::{Limit, Rate, Span, TokenBucket};
use tollgate::policy::Unit;
use tollgate::{Descriptor, Engine, OwnLimit, Request};

const RULES: &str = "
domain: d
descriptors:
  - key: user
    rate_limit: {requests_per_unit: 5, unit: minute}
  - key: sent
";
/// More keys than the whole ledger of these tests has room for.
const FLOOD: u64 = 900_000;
const SECOND: u64 = 1_000_000_000;

/// Asks for two of five units, floods, and expects three more.
fn check(flood: impl Fn(&Engine)) {
    let engine = engine(RULES);
    let passes = || ask(&engine, START, &["user=honest"]).allowed();
    assert!((0..2).all(|_| passes()));
    flood(&engine);
    let admitted = (0..10).filter(|_| passes()).count();
    assert_eq!(admitted, 3, "requests that passed after the flood, of a limit with three left");
    let stats = engine.stats();
    assert!(stats.bytes <= 8 << 20, "{stats:?}");
}

#[test]
fn callers_that_bring_their_numbers_evict_no_key_of_a_rule() {
    check(|engine| {
        let years = Span::from_ticks(4_611_686_018 * SECOND);
        let limit: Limit =
            TokenBucket::new(Rate::new(1, years).unwrap(), 1).unwrap().reading_foreign_states().into();
        for number in 0..FLOOD {
            engine.throttle(&number.to_be_bytes(), &limit, 1, START);
        }
    });
}

#[test]
fn descriptors_that_bring_their_limits_evict_no_key_of_a_rule() {
    check(|engine| {
        for number in 0..FLOOD {
            let value = number.to_string();
            let limit = Some(OwnLimit { requests_per_unit: 1, unit: Some(Unit::Day) });
            let entries = [("sent", value.as_str())];
            let descriptors = [Descriptor { limit, ..Descriptor::new(&entries) }];
            engine.decide(&Request::new("d", &descriptors), START).unwrap();
        }
    });
}
