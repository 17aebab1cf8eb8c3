//! The judge condemns what an oracle would not admit, and nothing else.
use tollgate_testkit::Spec;

use super::over_admissions;
use crate::fleet::load::{Asked, Outcome};

const WINDOW: Spec = Spec::FixedWindow { units: 10, period_ticks: 1_000_000 };

fn admitted(key: u64, cost: u64, at_us: u64) -> Asked {
    Asked { key, cost, outcome: Outcome::Admitted { at_us } }
}

fn check(asked: &[Asked], expected: usize) {
    assert_eq!(over_admissions(&WINDOW, asked.iter()), expected);
}

#[test]
fn what_the_limit_allows_is_not_too_much() {
    check(&[], 0);
    check(&[admitted(1, 4, 2_000_000), admitted(1, 6, 2_999_999), admitted(1, 10, 3_000_000)], 0);
    check(&[admitted(1, 10, 2_000_000), admitted(2, 10, 2_000_000)], 0);
    let denied = Asked { outcome: Outcome::Denied, ..admitted(1, 10, 0) };
    check(&[admitted(1, 10, 2_000_000), denied], 0);
}

#[test]
fn what_is_beyond_it_is_whoever_says_it_first() {
    check(&[admitted(1, 4, 2_000_000), admitted(1, 7, 2_999_999)], 1);
    check(&[admitted(1, 1, 2_500_000), admitted(1, 10, 2_000_000), admitted(1, 1, 2_600_000)], 2);
}
