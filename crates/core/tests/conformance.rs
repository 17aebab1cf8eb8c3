//! The algorithms against the naive oracles, as whole states and as packed words.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test stops at the first surprise.

use tollgate_core::Limit;
use tollgate_testkit::{Spec, States, Subject, Words, run_suite};

const CASES: u64 = 2_500;

fn check<S: Subject>(make_subject: impl Fn(&Limit) -> Option<S>) -> u64 {
    run_suite(|spec: &Spec| make_subject(&spec.limit()), CASES)
        .unwrap_or_else(|divergence| panic!("{divergence}"))
}

#[test]
fn states_answer_like_the_oracle() {
    assert_eq!(check(|_| Some(States::default())), CASES * Spec::kinds().len() as u64);
}

#[test]
fn words_answer_like_the_oracle() {
    let played = check(|limit| limit.packs().then(Words::default));
    assert!(played > CASES * 3, "only {played} traces were played on words");
}
