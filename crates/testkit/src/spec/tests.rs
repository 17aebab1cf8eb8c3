//! The specs cover the registry, and can all be built.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use tollgate_core::Limit;

use super::Spec;

/// A new algorithm without an oracle fails here.
#[test]
fn every_algorithm_of_the_registry_has_a_spec() {
    let mut runner = TestRunner::deterministic();
    let covered: BTreeSet<&str> = Spec::kinds()
        .iter()
        .map(|kind| kind.new_tree(&mut runner).unwrap().current().limit().algorithm())
        .collect();
    let registered: BTreeSet<&str> = Limit::ALGORITHMS.iter().copied().collect();
    assert_eq!(covered, registered);
}

proptest! {
    #[test]
    fn every_spec_builds(spec in Spec::any()) {
        prop_assert!(spec.try_limit().is_ok());
        prop_assert!(spec.beat() >= 1 && spec.memory() >= spec.beat());
    }
}
