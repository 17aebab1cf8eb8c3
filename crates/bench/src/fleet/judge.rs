//! Whether one counter alone would have admitted what a fleet did.

use std::collections::HashMap;

use tollgate_core::{Ask, Cost, Time};
use tollgate_testkit::Spec;

use super::load::{Asked, Outcome};

/// How many of the admitted requests the oracle does not admit, shown to it key by key in the order in which Redis decided.
pub(super) fn over_admissions<'a>(spec: &Spec, asked: impl Iterator<Item = &'a Asked>) -> usize {
    let mut admitted: HashMap<u64, Vec<(u64, u64)>> = HashMap::new();
    for Asked { key, cost, outcome } in asked {
        if let Outcome::Admitted { at_us } = outcome {
            admitted.entry(*key).or_default().push((*at_us, *cost));
        }
    }
    let mut over = 0;
    for mut of_key in admitted.into_values() {
        of_key.sort_unstable();
        let mut oracle = spec.oracle();
        for (at_us, cost) in of_key {
            let ask = Ask::take(Cost::new(cost), Time::from_ticks(at_us));
            over += usize::from(!oracle.decide(ask).is_allowed());
        }
    }
    over
}

#[cfg(test)]
mod tests;
