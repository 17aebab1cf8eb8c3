//! The judge against cases small enough to judge by hand.

use tollgate_core::{Cost, FixedWindow, Limit, Rate, SlidingLog, Span, Time};

use super::judge;
use crate::accuracy::traffic::{Arrival, Traffic};

/// Two units per ten ticks, one key; false allows, false denials, and the most of one period, in units.
fn check(limit: fn(Rate) -> Limit, moments: &[u64], expected: (u64, u64, f64)) {
    let rate = Rate::new(2, Span::from_ticks(10)).expect("a valid rate");
    let arrival = |&at: &u64| Arrival { key: 0, at: Time::from_ticks(at), cost: Cost::ONE };
    let traffic = Traffic::new("by hand", rate, 1, moments.iter().map(arrival).collect());
    let judgement = judge(&limit(rate), &traffic);
    assert_eq!((judgement.false_allows, judgement.false_denials, judgement.worst * 2.0), expected);
}

#[test]
fn a_fixed_window_forgets_at_its_boundary() {
    check(|rate| FixedWindow::new(rate).into(), &[108, 109, 110, 111], (2, 0, 4.0));
}

#[test]
fn what_is_a_period_old_counts_no_more() {
    check(|rate| FixedWindow::new(rate).into(), &[100, 101, 110, 111], (0, 0, 2.0));
}

#[test]
fn a_log_is_never_wrong() {
    let log = |rate| SlidingLog::new(rate).expect("a small limit").into();
    check(log, &[100, 101, 102, 109, 110, 111, 112, 120], (0, 0, 2.0));
}
