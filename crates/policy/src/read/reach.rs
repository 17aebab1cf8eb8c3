//! Whether a descriptor that a recipe makes can meet a rule. One that never does is a mistake that nobody would notice: requests pass, uncounted.

use std::collections::HashSet;

use super::Reader;
use crate::pattern::Pattern;
use crate::problem::{Mark, quote};
use crate::recipe::{Action, Recipe};
use crate::spec::DescriptorSpec;

/// The most descriptors of the tree that are looked at for all recipes of a file. What is not looked at is taken to be right.
const LOOKS_MAX: usize = 1 << 20;

/// How many keys of the first level are named.
const SHOWN_MAX: usize = 10;

impl Reader<'_, '_> {
    /// Recipes, and where they stand, must lead to rules, if there are any.
    pub(super) fn check_recipes(&mut self, recipes: &[(Recipe, Mark)], descriptors: &[DescriptorSpec]) {
        let mut looks_left = LOOKS_MAX;
        for (recipe, mark) in recipes.iter().filter(|_| !descriptors.is_empty()) {
            if reaches(recipe, descriptors, &mut looks_left) {
                continue;
            }
            let made: Vec<&str> = recipe.actions.iter().map(|action| action.entry().key).collect();
            let what = format!("no rule is met by the descriptor {}", quote(&made.join(" > ")));
            let mut keys: Vec<&str> =
                descriptors.iter().map(|spec| spec.key.as_str()).take(SHOWN_MAX).collect();
            keys.dedup();
            let hint = format!(
                "its entries must lead, level by level, to a descriptor with a `rate_limit`; the first level has {}",
                quote(&keys.join(", "))
            );
            self.wrong(*mark, what, hint);
        }
    }
}

/// Whether some request has a descriptor by this recipe that ends at a rule.
fn reaches(recipe: &Recipe, descriptors: &[DescriptorSpec], looks_left: &mut usize) -> bool {
    // The places where a descriptor may stand after the actions so far: at none yet, and at these.
    let (mut at_root, mut reached) = (true, Vec::new());
    for action in &recipe.actions {
        let entry = action.entry();
        let fits = |spec: &&DescriptorSpec| {
            spec.key == entry.key && entry.value.is_none_or(|value| takes(spec, value))
        };
        let first = if at_root { descriptors } else { &[] };
        let levels =
            std::iter::once(first).chain(reached.iter().map(|spec: &&DescriptorSpec| &*spec.descriptors));
        let looked_at: usize = levels.clone().map(<[_]>::len).sum();
        let Some(left) = looks_left.checked_sub(looked_at) else { return true };
        *looks_left = left;
        let next: Vec<&DescriptorSpec> = levels.flatten().filter(fits).collect();
        if entry.may_be_missing {
            // Who is reached in both ways is still one.
            let known: HashSet<_> = next.iter().map(|spec| std::ptr::from_ref(*spec)).collect();
            reached.retain(|spec| !known.contains(&std::ptr::from_ref(*spec)));
            reached.extend(next);
        } else {
            (at_root, reached) = (false, next);
        }
    }
    reached.iter().any(|spec| spec.rule.is_some())
}

fn takes(spec: &DescriptorSpec, value: &str) -> bool {
    let Some(own) = &spec.value else { return true };
    own == value || Pattern::new(own).is_some_and(|pattern| pattern.matches(value))
}

/// What is known of an entry before there is a request.
struct Foreseen<'a> {
    key: &'a str,
    value: Option<&'a str>,
    may_be_missing: bool,
}

impl Action {
    fn entry(&self) -> Foreseen<'_> {
        let (key, value, may_be_missing) = match self {
            Action::Copied { key, skip_if_absent, .. } => (key.as_str(), None, *skip_if_absent),
            Action::Matched { key, value, .. } | Action::Generic { key, value } => {
                (key.as_str(), Some(value.as_str()), false)
            }
            Action::RemoteAddress => ("remote_address", None, false),
            Action::MaskedRemoteAddress { .. } => ("masked_remote_address", None, false),
        };
        Foreseen { key, value, may_be_missing }
    }
}
